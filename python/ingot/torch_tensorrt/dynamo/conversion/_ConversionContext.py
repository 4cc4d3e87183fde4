"""The path by which scripts import ConversionContext."""

from ._ConverterRegistry import ConversionContext

__all__ = ["ConversionContext"]
