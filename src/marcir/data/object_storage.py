"""Images on object storage: addresses, what lies below them, and the bytes of objects."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from marcir.errors import BrokenImageError, ConfigError, DataError, needs
from marcir.files import reason
from marcir.processes import processors

_SCHEME: Final = "s3://"
# The variables that stores on object storage use, too; other credentials are those of the AWS SDK.
_VARIABLES: Final = (
    "AWS_ENDPOINT_URL",
    "AWS_ALLOW_HTTP",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
_ATTEMPTS: Final = 5  # of a request; with the pauses between them they take some seconds
# Objects that are read at a time: for most of the time, their threads wait.
_THREADS: Final = 16
# What is wrong with the service, the connection or the credentials, not with one object.
_NOT_THE_OBJECT: Final = re.compile(
    "NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|THROTTLING|REQUEST_TIMEOUT"
    "|ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|EXPIRED|NO_SUCH_BUCKET"
)


@dataclass(frozen=True, slots=True)
class S3Path:
    """The address of an object, or of all objects below a prefix, `s3://bucket/key`.

    It has what reading images needs of `pathlib.Path`.

    >>> S3Path.parse("s3://bucket/tiles/") / "a/1.png"
    S3Path(bucket='bucket', key='tiles/a/1.png')
    """

    bucket: str
    key: str = ""

    @classmethod
    def parse(cls, address: str) -> "S3Path":
        """The address that a text is.

        Raises:
            ConfigError: Where no bucket is named, or a name between slashes is empty, `.` or `..`.
        """
        bucket, _, key = address.removeprefix(_SCHEME).partition("/")
        path = cls(bucket, key.rstrip("/"))
        if not bucket or (path.key and not _is_clean(path.key)):
            raise ConfigError(f"{address}: not an address on object storage. Write s3://bucket/prefix.")
        return path

    def __str__(self) -> str:
        return f"{_SCHEME}{self._name}"

    def __truediv__(self, key: str) -> "S3Path":
        return S3Path(self.bucket, f"{self.key}/{key}" if self.key else key)

    def absolute(self) -> "S3Path":
        """The same: an address is absolute."""
        return self

    def is_relative_to(self, other: "S3Path") -> bool:
        """Whether it is below the other address, or the same."""
        return f"{self}/".startswith(f"{other}/")

    def keys(self) -> list[str]:
        """Keys of all objects below the prefix, relative to it.

        Raises:
            DataError: Where they cannot be listed.
        """
        with needs("store"):
            from pyarrow.fs import FileSelector, FileType
        try:
            with self._listing():
                found = _file_system(self.bucket).get_file_info(FileSelector(self._name, recursive=True))
        except FileNotFoundError:
            return []
        return [each.path[len(self._name) + 1 :] for each in found if each.type == FileType.File]

    def check(self) -> None:
        """Look whether there is anything at the address.

        Raises:
            DataError: Where there is nothing, and where this process may not list it.
        """
        with needs("store"):
            from pyarrow.fs import FileType
        with self._listing():
            found = _file_system(self.bucket).get_file_info(self._name)
        if found.type == FileType.NotFound:
            raise DataError(f"{self}: there is nothing on object storage at this address.")

    def open(self) -> Any:
        """Open an object: a file of Arrow, with `read`, `seek`, `size` and `metadata`.

        Raises:
            FileNotFoundError: Where there is none.
            BrokenImageError: Where it cannot be read; the text is without the address.
            DataError: Where the service cannot be reached or refuses this process.
        """
        if not _is_clean(self.key):
            raise BrokenImageError("a name between the slashes of its key is empty, '.' or '..'. Rename it.")
        with self.reading():
            return _file_system(self.bucket).open_input_file(self._name)

    def read_bytes(self, check_size: Callable[[int], None]) -> bytes:
        """Read an object whose number of bytes passes a check; errors are those of `open`."""
        with self.open() as file:
            check_size(file.size())
            with self.reading():
                content: bytes = file.read()
        return content

    @property
    def _name(self) -> str:
        return f"{self.bucket}/{self.key}" if self.key else self.bucket

    @contextmanager
    def _listing(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DataError(
                f"{self}: cannot be listed ({_reason(error)}). Check the bucket and the variables AWS_*."
            ) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise the errors of `open` for those of Arrow, while the object is read."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            if _NOT_THE_OBJECT.search(str(error)):
                raise DataError(
                    f"{self}: object storage does not give it ({_reason(error)}). When it does, the same "
                    "command continues."
                ) from error
            raise BrokenImageError(f"cannot be read from object storage ({_reason(error)}).") from error


ImagePath: TypeAlias = Path | S3Path


def image_path(path: str | ImagePath) -> ImagePath:
    """A file or folder, or the address on object storage that a text is.

    >>> image_path("tiles"), str(image_path("s3://bucket/tiles/"))
    (PosixPath('tiles'), 's3://bucket/tiles')
    """
    if isinstance(path, S3Path):
        return path
    if isinstance(path, str) and path.startswith(_SCHEME):
        return S3Path.parse(path)
    return Path(path)


def reading_threads(path: ImagePath, threads: int | None) -> int | None:
    """Threads that read images like this one; `threads` for files, more for objects."""
    return many_threads(threads) if isinstance(path, S3Path) else threads


def many_threads(threads: int | None) -> int:
    """Threads that read from a server: more than processors, since they wait for most of the time."""
    return max(_THREADS, threads or processors())


def _is_clean(key: str) -> bool:
    return not {"", ".", ".."}.intersection(key.split("/"))


def _file_system(bucket: str) -> Any:
    return _connected(bucket, tuple(os.environ.get(name, "") for name in _VARIABLES))


@lru_cache(maxsize=16)
def _connected(bucket: str, variables: tuple[str, ...]) -> Any:
    """A client; one for each bucket and environment."""
    with needs("store"):
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region
    endpoint, allow_http, region, default_region, *_ = variables
    if endpoint.startswith("http://") and allow_http.lower() not in ("1", "true", "yes", "on"):
        raise ConfigError(
            f"AWS_ENDPOINT_URL={endpoint}: is without TLS. Set AWS_ALLOW_HTTP=true to allow it."
        )
    # Without any of them, the SDK would first look for the metadata service of a machine at Amazon.
    region = region or default_region or ("us-east-1" if endpoint else resolve_s3_region(bucket))
    retries = AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)
    return S3FileSystem(endpoint_override=endpoint or None, region=region, retry_strategy=retries)


def _reason(error: OSError) -> str:
    """The error of the service, without what is known already and without the number of the request."""
    text = re.sub(r"^.*?(?=AWS Error)|\s*\(Request ID: [^)]*\)", "", reason(error))
    return text[:300].rstrip(" .,")
