"""Texts of figures, cut to their room."""


def shortened(text: str, letters: int) -> str:
    """Text on one line of at most so many letters; what is too long loses its middle.

    >>> shortened("a_very_long_scene_name_0042.tif", 16)
    'a_very_…0042.tif'
    """
    line = " ".join(text.split())
    if len(line) <= letters:
        return line
    end = letters // 2
    return f"{line[: letters - end - 1]}…{line[len(line) - end :]}"


def unmarked(text: str) -> str:
    r"""Text in which matplotlib sees no formula, whatever dollars a name has.

    >>> print(unmarked("a$b$"))
    a\$b\$
    """
    return text.replace("$", r"\$")


def short_number(count: float) -> str:
    """A count in few letters.

    >>> short_number(848), short_number(54_840), short_number(2_500_000)
    ('848', '54.84k', '2.5M')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.4g}{unit}"
    return f"{count:.0f}"
