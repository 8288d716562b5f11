"""Results of actors and tasks, and what became of those that do not come."""

from typing import Any

from marcir.errors import ClusterError, MarcirError
from marcir.files import reason


class LostError(Exception):
    """A result that will not come, because its process or its machine is gone."""


def fetch(ray: Any, ref: Any) -> Any:
    """A result; errors of marcir in the other process are raised as they are.

    Raises:
        LostError: Where its process or its machine is gone.
        ClusterError: For any other error there.
    """
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(ref)
    except RayError as error:
        if "No module named 'marcir" in str(error):
            raise ClusterError(
                "a machine of the cluster has no marcir, or another version. Install the same version on all "
                "of them: pip install 'marcir[cluster]'"
            ) from None
        if not isinstance(error, RayTaskError):
            raise LostError(reason(error)) from error
        if isinstance(error.cause, MarcirError):
            raise error.cause from None
        raise ClusterError(f"a process of the cluster failed: {reason(error.cause)}.") from error


def lost_connection(error: ConnectionError) -> ClusterError:
    """The error of a driver that has lost its cluster."""
    return ClusterError(
        f"the connection to the cluster was lost ({reason(error)}). The same command goes on with what is "
        "missing."
    )
