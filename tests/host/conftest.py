"""For the tests of the host: the kernel's fixtures."""

from tests.kernel.conftest import kernel, make_kernel, rows

__all__ = ["kernel", "make_kernel", "rows"]
