import time
from typing import ClassVar


class ZooScorer:
    """Fits the protocol; no test runs it."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False

    def sensitivity(self, schema, round):
        raise NotImplementedError

    def prepare(self, data, plan, meter):
        raise NotImplementedError


time.sleep(1.0)
