"""A report as one HTML file that needs nothing else: for an issue, a release page, or an archive."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

from dpkit_check.kit import Report, Result
from dpkit_core import __version__


def report_page(report: Report) -> str:
    """Return ``report`` as an HTML page."""
    template = Template((files(__package__) / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        part=escape(report.part),
        kind=escape(report.kind),
        status="passed" if report.verdict == "passed" else "failed",
        verdict=report.verdict,
        statement=escape(report.statement),
        rows="\n".join(map(_row, report.results)),
        version=escape(__version__),
    )


def _row(result: Result) -> str:
    detail = f"<pre>{escape(result.detail)}</pre>" if "\n" in result.detail else escape(result.detail)
    if result.remedy:
        detail += f"<p><strong>What to do:</strong> {escape(result.remedy)}</p>"
    cells = (
        f'<td class="{result.status}">{result.status}</td>',
        f"<td>{escape(result.group)}</td>",
        f"<td><code>{escape(result.check)}</code></td>",
        f"<td>{detail}</td>",
        f"<td>{result.samples or ''}</td>",
        f"<td>{100 * result.confidence:.6g}%</td>",
        f"<td>{result.seconds:.2f}</td>",
    )
    return f"<tr>{''.join(cells)}</tr>"
