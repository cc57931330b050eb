"""A report as a notebook shows it: with the picture that shows each mistake, and questions that fold out."""

from __future__ import annotations

from html import escape

from course_lib.markup import code_words

from .report import NO_MASK, ON_PURPOSE, Report


def as_html(report: Report) -> str:
    """Write a report with its pictures; questions fold out."""
    parts = [f"<p><strong>{escape(report.patient)}: {escape(report.verdict)}</strong></p>"]
    if report.findings:
        parts.append("<ol>")
    for finding in report.findings:
        name = f" <code>{escape(finding.mistake)}</code>" if finding.mistake else ""
        text = f": <code>{escape(finding.source)}</code>" if finding.source else ""
        place = f"<br>Look at {escape(finding.where)}{text}" if finding.where else ""
        lesson = f" Lesson {finding.lesson} is about this." if finding.lesson else ""
        picture = finding.picture
        hint = f"<details><summary>A question to ask</summary>{code_words(finding.hint)}{lesson}</details>"
        on_purpose = f"<br>{ON_PURPOSE.format('give <code>causal=False</code>')}" * (finding.mistake == NO_MASK)
        parts.append(
            f"<li><strong>{code_words(finding.title)}</strong>{name}{place}<br>Seen: {code_words(finding.evidence)}"
            f"{on_purpose}{hint if finding.hint else ''}{picture._repr_html_() if picture is not None else ''}</li>"
        )
    parts += ["</ol>"] if report.findings else []
    for words, intro in ((report.checked, "In order"), (report.remarks, "Worth knowing")):
        if words:
            parts.append(f"<p>{intro}:</p><ul>{''.join(f'<li>{code_words(one)}</li>' for one in words)}</ul>")
    return "".join(parts)
