"""Who may ask: the token, or a cookie that was given for it."""

import hashlib
import hmac
import time

from marcir.serve.settings import SESSION_SECONDS

COOKIE = "marcir_session"


class Sessions:
    """Checks tokens and cookies. Cookies are signed, not stored: replicas with one token accept each other's.

    Args:
        token: What the service was started with.
    """

    def __init__(self, token: str) -> None:
        self._token = hashlib.sha256(token.encode()).digest()
        self._key = hmac.digest(token.encode(), b"marcir session", "sha256")

    def is_token(self, given: str) -> bool:
        """Whether it is the token; takes as long for any other."""
        return hmac.compare_digest(hashlib.sha256(given.encode("utf-8", "replace")).digest(), self._token)

    def cookie(self) -> str:
        """A new cookie, from which the token cannot be derived."""
        until = str(int(time.time()) + SESSION_SECONDS)
        return f"{until}.{self._sign(until)}"

    def is_cookie(self, given: str) -> bool:
        """Whether it is a cookie of ours that is still valid."""
        until, _, signature = given.partition(".")
        signed = hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(until).encode())
        return signed and int(until) > time.time()

    def _sign(self, until: str) -> str:
        return hmac.digest(self._key, until.encode("utf-8", "replace"), "sha256").hex()
