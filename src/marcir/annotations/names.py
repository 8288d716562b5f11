"""Names of collections and labels, and ids of images, as annotations take them."""

from collections.abc import Collection, Iterable
from unicodedata import normalize

from marcir.data.label_csv import SIGNS
from marcir.errors import AnnotationError

MAX_NAME = 100  # characters of the name of a collection or a label
MAX_ID = 4096  # characters of the id of an image
_SHOWN = 80


def check_collection(name: str) -> str:
    """The name of a collection, without spaces at its ends, in the normal form NFC of Unicode.

    Raises:
        AnnotationError: For an empty or a long name, and for invisible characters.

    >>> check_collection(" Ships of May ")
    'Ships of May'
    """
    return _checked("collection", name)


def check_label(name: str) -> str:
    """The name of a label, as a list of a label table can hold it, in the normal form NFC of Unicode.

    Raises:
        AnnotationError: For a name that a label table would read as something else.

    >>> check_label(" ship")
    'ship'
    """
    label = _checked("label", name)
    if ";" in label:
        raise AnnotationError(f"label '{label}': no name has a semicolon, which separates names in tables.")
    if label[0] in SIGNS or label[-1] in SIGNS:
        raise AnnotationError(
            f"label '{label}': a name neither begins nor ends with {' or '.join(SIGNS)}, which say in tables "
            "that it is unknown or absent. Give the state apart."
        )
    return label


def check_known_label(name: str, known: Collection[str]) -> str:
    r"""The name of a label, as it is spelled in a table, which need not be in the normal form.

    Raises:
        AnnotationError: As `check_label`.

    >>> check_known_label("caf\u00e9", ["cafe\u0301"]) == "cafe\u0301"
    True
    """
    label = check_label(name)
    if (given := name.strip()) in known:
        return given
    return next((each for each in known if normalize("NFC", each) == label), label)


def check_images(images: Iterable[str]) -> list[str]:
    """Ids of images, each once, in their order.

    Raises:
        AnnotationError: For what cannot be the id of an image.
    """
    every = list(dict.fromkeys(images))
    for image in every:
        if not isinstance(image, str) or not 0 < len(image) <= MAX_ID:
            raise AnnotationError(f"{shown(image)}: the id of an image has 1 to {MAX_ID} characters.")
        try:
            image.encode()
        except UnicodeEncodeError:
            raise AnnotationError(f"{shown(image)}: the id of an image must be UTF-8.") from None
    return every


def shown(text: object) -> str:
    r"""A short form of what was given, on one line, for errors.

    >>> shown("a\nb"), shown("x" * 200)[-6:]
    ("'a\\nb'", 'xxx...')
    """
    written = ascii(text) if not str(text).isprintable() else f"'{text}'"
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}..."


def _checked(kind: str, name: str) -> str:
    stripped = normalize("NFC", name).strip() if isinstance(name, str) else ""
    if not stripped:
        raise AnnotationError(f"{kind} {shown(name)}: give it a name.")
    if len(stripped) > MAX_NAME:
        raise AnnotationError(f"{kind} {shown(stripped)}: at most {MAX_NAME} characters.")
    if not stripped.isprintable():
        raise AnnotationError(
            f"{kind} {shown(stripped)}: a name has no line breaks and no invisible characters."
        )
    return stripped
