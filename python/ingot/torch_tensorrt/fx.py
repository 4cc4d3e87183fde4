"""`torch_tensorrt.fx`: refused; the table in _symbols.py says why."""

from ._symbols import refused_names

__getattr__ = refused_names(__name__)
