"""Client of attentiond: exact attention over HTTP, NumPy in and out."""
from .client import Client, ServiceError

__all__ = ["Client", "ServiceError"]
