"""What a plain YAML scalar means to Kubernetes.

Its tools read YAML by the rules of one Go library, which are neither those of YAML 1.1 nor of 1.2: `yes`, `on` and `y`
are true, `0644` is octal, `1e3` is a number and `12:30:45` and dates are text. A file mode or a switch that is read
otherwise would be another object than kubectl applies.
"""

import math
import re

__all__ = ["ESCAPES", "MAX_KEY_LENGTH", "PLAIN", "SPECIAL", "WORDS", "is_plain_text", "json_number", "resolve"]

MAX_KEY_LENGTH = 1000  # parsers find the colon of a key within 1,024 characters
SPECIAL = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff\U00010000-\U0010ffff"
"""What is written as an escape, as part of a pattern: what a YAML reader refuses, drops or takes for a line's end."""
ESCAPES = {
    f"\\{escape}": of for escape, of in zip('0abtnvfre"NLP', '\0\a\b\t\n\v\f\r\x1b"\x85\u2028\u2029', strict=True)
}
"""The escapes of one letter, without that of the backslash."""
PLAIN = (
    r"(?!---|\.\.\.|[ #,\[\]{}&*!|>'\"%@`]|[-?:](?:[ \n]|\Z))"
    rf"(?=[^{SPECIAL}])[^:#{SPECIAL}]*+(?:(?::(?![ \n]|\Z)|(?<! )#)[^:#{SPECIAL}]*+)*+(?<! )"
)
"""A pattern for what may stand without quotes on one line, whatever it means."""

Scalar = str | int | float | bool | None

WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_NOT_ZERO = frozenset("123456789")
_MAY_BE_NUMBER = frozenset("0123456789+-.")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}($|[Tt ][0-9])")
_INTEGER = re.compile(
    r"[-+]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[oO]?(?P<octal>[0-7]+)|0[bB](?P<binary>[01]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"hex": 16, "octal": 8, "binary": 2, "decimal": 10}
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_WHOLE_BELOW = 1e21
_MAX_DIGITS = 20  # of _MAX_INTEGER; int() refuses some thousands of digits


def resolve(text: str) -> Scalar:
    """Return what a plain (unquoted) scalar means."""
    if text in WORDS:
        return WORDS[text]
    if text[0] in _NOT_ZERO and text.isdigit() and text.isascii() and len(text) < _MAX_DIGITS:
        return int(text)
    if text[0] not in _MAY_BE_NUMBER or _DATE.match(text):
        return text
    digits = text.replace("_", "")
    number: int | float | None = _integer(digits)
    if number is None and _FLOAT.fullmatch(digits):
        number = float(digits)
    return text if number is None or (isinstance(number, float) and math.isinf(number)) else number


def json_number(number: float) -> int | float:
    """Return a finite number as JSON writes it: `1e3` and `1.0` are whole numbers there."""
    return int(number) if number.is_integer() and abs(number) < _WHOLE_BELOW else number


def is_plain_text(text: str) -> bool:
    """Tell whether a text stays what it is when it is written without quotes."""
    return isinstance(resolve(text), str)


def _integer(digits: str) -> int | None:
    matched = _INTEGER.fullmatch(digits)
    if matched is None or matched.lastgroup is None:
        return None
    if matched["decimal"] is not None and len(matched["decimal"]) > _MAX_DIGITS:
        return None
    value = int(matched[matched.lastgroup], _BASES[matched.lastgroup])
    value = -value if digits[0] == "-" else value
    return value if _MIN_INTEGER <= value <= _MAX_INTEGER else None
