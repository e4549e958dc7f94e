"""Published privacy claims that are false, written small, each beside its corrected twin."""

from . import laws, mechanisms, parts, sensitivities

SPECIMENS = (*sensitivities.SPECIMENS, *laws.SPECIMENS, *mechanisms.SPECIMENS, *parts.SPECIMENS)
