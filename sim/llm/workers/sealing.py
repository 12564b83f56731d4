"""Sealing what only one worker may read, by HPKE (RFC 9180): it is encrypted with a key that the worker has drawn."""

from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class Seal:
    """The pair of keys of a worker, of which the private one never leaves its process."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()

    @property
    def public(self) -> bytes:
        """What others need to seal something for this worker."""
        return self._private.public_key().public_bytes_raw()

    def opened(self, box: bytes) -> bytes:
        """Return what was sealed for this worker.

        Raises:
            cryptography.exceptions.InvalidTag: if it was sealed for another one, or changed.
        """
        return _SUITE.decrypt(box, self._private)


def sealed(content: bytes, public: bytes) -> bytes:
    """Return bytes in a form that only the worker with a public key can read."""
    return _SUITE.encrypt(content, X25519PublicKey.from_public_bytes(public))
