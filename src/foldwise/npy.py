"""What an .npy file says before its data: read without trusting it, and written."""

import io
import math
import sys
import zipfile
import zlib
from typing import IO, Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from .arguments import Array
from .errors import SourceError

SUFFIX: Final = ".npy"


class Header(NamedTuple):
    """What an .npy file says before its data."""

    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    columns_first: bool = False

    @property
    def size(self) -> int:
        """How many bytes the data take."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def possible(self) -> bool:
        """Whether there can be such an array: without its axes of length 0, too, it has an address."""
        return math.prod(max(1, n) for n in self.shape) * self.dtype.itemsize <= sys.maxsize

    def check_size(self, found: int, where: str) -> None:
        if found < self.size:
            raise SourceError(f"{where} is truncated: of {self.size:,} bytes of data it has {found:,}")

    def arranged(self, data: Array) -> Array:
        """Bytes as the array that they are."""
        return data.view(self.dtype).reshape(self.shape, order="F" if self.columns_first else "C")

    def to_bytes(self) -> bytes:
        """The header as a file begins with it."""
        written = io.BytesIO()
        described = np.lib.format.dtype_to_descr(self.dtype)
        fields = {"descr": described, "fortran_order": self.columns_first, "shape": self.shape}
        np.lib.format.write_array_header_1_0(written, fields)
        return written.getvalue()


def read_header(stream: IO[bytes], where: str) -> Header:
    """The header of a file, which is then read as far as its data. Nothing is ever unpickled."""
    formats = np.lib.format
    try:
        version = formats.read_magic(stream)
        # Version 3 differs from 2 in the names of fields only.
        read = formats.read_array_header_1_0 if version == (1, 0) else formats.read_array_header_2_0
        shape, columns_first, dtype = read(stream)
    except (zipfile.BadZipFile, zlib.error):
        raise
    except Exception as error:  # damaged headers fail in the parser's many ways
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(f"{where} is not an .npy file, as numpy.save writes it ({reason})") from None
    if dtype.hasobject:
        raise SourceError(f"{where} holds pickled Python objects, which are never loaded; save numbers instead")
    if len(shape) > 64 or min(shape, default=0) < 0 or not dtype.itemsize:
        raise SourceError(f"{where} has a damaged header: dtype {dtype}, shape {shape}")
    if dtype == np.dtype("V2"):
        dtype = np.dtype(ml_dtypes.bfloat16)  # as which NumPy saves it: it has no name for it
    header = Header(dtype, shape, bool(columns_first))
    if not (header.size or header.possible):
        raise SourceError(f"{where} has a damaged header: dtype {dtype}, shape {shape}")
    return header
