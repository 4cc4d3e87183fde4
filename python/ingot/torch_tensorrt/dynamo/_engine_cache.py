"""Engine caches: ingot's own folder of plans (option cache), or a user's object that stores bytes."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch

from ._settings import ROWS, CompilationSettings

_CACHE = ("cache", "cache_dir", "cache_bytes")
_ENTRY = ("serialized_engine", "input_names", "output_names", "input_specs", "compilation_settings", "requires_output_allocator", "requires_native_multidevice", "aliased_io")
_PICKLE = b"\x80"  # a pickle begins with this; an entry of a build begins with a name in hexadecimal


class BaseEngineCache(ABC):
    """A user's cache: a subclass stores bytes under a name. **The bytes from `load` are trusted as code**: store them where nobody else can write."""

    @abstractmethod
    def save(self, hash: str, blob: bytes, *args, **kwargs) -> None:
        """Stores the bytes under the name."""

    @abstractmethod
    def load(self, hash: str, *args, **kwargs) -> bytes | None:
        """The bytes that were saved under the name, or None."""

    @staticmethod
    def get_hash(gm: torch.fx.GraphModule, input_specs: Sequence, settings: CompilationSettings, weight_name_map=None) -> str:
        """The name of a graph with these inputs and settings: a hash of its operators, arguments and sizes, without the values of weights and the names of inputs and nodes. ingot itself distinguishes two
        graphs of one name, because it compares everything that a plan is made from."""
        parts = _graph_text(gm.graph)
        parts += [f"{name} {_described(t)}" for name, t in (*gm.named_parameters(), *gm.named_buffers())]
        parts += map(_described, input_specs)
        for row in ROWS.values():
            if row.group == "field" and row.status == "works" and row.to is not None and not row.name.startswith(("cache", "reuse")):
                parts.append(f"{row.name} {_canonicalize_setting_value(row.to(getattr(settings, row.name)))}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @staticmethod
    def pack(serialized_engine: bytes, input_names, output_names, input_specs, compilation_settings, requires_output_allocator=False, requires_native_multidevice=False, aliased_io=None) -> bytes:
        """An entry for scripts that store engines by themselves. Builds store ingot's own bytes instead."""
        values = (serialized_engine, input_names, output_names, input_specs, compilation_settings, requires_output_allocator, requires_native_multidevice, dict(aliased_io or {}))
        return pickle.dumps(dict(zip(_ENTRY, values)))

    @staticmethod
    def unpack(packed: bytes) -> tuple:
        """The values that `pack` was given, in its order. **It reads a pickle, which can run any code**: pass only bytes from people you trust."""
        found = pickle.loads(packed)
        return tuple(found.get(name, {} if name == "aliased_io" else None) for name in _ENTRY)

    def insert(self, hash: str, entry, *args, **kwargs) -> None:
        """Stores an entry: bytes from a build, or the values of `pack` in its order."""
        self.save(hash, entry if isinstance(entry, bytes) else self.pack(*entry), *args, **kwargs)

    def check(self, hash: str, *args, **kwargs):
        """The entry under a name: the bytes of a build, or the values of `pack`. None if there is none, and for an entry of `pack` that does not say what is written in place."""
        blob = self.load(hash, *args, **kwargs)
        if blob is None or not blob.startswith(_PICKLE):
            return blob
        return self.unpack(blob) if "aliased_io" in pickle.loads(blob) else None


class DiskEngineCache(BaseEngineCache):
    """A cache with one file `<folder>/<hash>/blob.bin` per entry. ingot's own cache (cache_built_engines without custom_engine_cache) also limits its size."""

    def __init__(self, engine_cache_dir: str, engine_cache_size: int = ROWS["engine_cache_size"].initial):
        self.engine_cache_dir, self.total_engine_cache_size = os.fspath(engine_cache_dir), engine_cache_size

    def _path(self, hash):
        return os.path.join(self.engine_cache_dir, hash, "blob.bin")

    def save(self, hash, blob, *args, **kwargs):
        from ...base import atomic

        if len(blob) <= self.total_engine_cache_size:
            os.makedirs(os.path.dirname(self._path(hash)), exist_ok=True)
            atomic.write_bytes(self._path(hash), blob)

    def load(self, hash, *args, **kwargs):
        try:
            with open(self._path(hash), "rb") as file:
                return file.read()
        except OSError:
            return None


def through(cache: BaseEngineCache | None, graph: Callable[[], torch.fx.GraphModule], specs: Sequence, settings: CompilationSettings, options: dict, build: Callable[[dict], object]):
    """build(options), with plans read from and stored in a user's cache. They go through a temporary folder of the build."""
    use = options.get("cache", "off")
    if cache is None or use == "off":
        return build(options)
    name = cache.get_hash(graph(), specs, settings)
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        if "read" in use and isinstance(blob := cache.check(name), bytes):
            _unpack(blob, folder)
        before = _entries(folder)
        made = build({**{k: v for k, v in options.items() if k not in _CACHE}, "cache": "readwrite", "cache_dir": folder})
        if "write" in use and (new := _entries(folder) - before):
            cache.insert(name, _packed(folder, new))
    return made


def _canonicalize_setting_value(value) -> str:
    """A setting as text that is the same in every process: sets and dictionaries in order."""
    if isinstance(value, (set, frozenset)):
        return str(sorted(map(str, value)))
    return str(sorted(value.items())) if isinstance(value, dict) else str(value)


def _graph_text(graph: torch.fx.Graph) -> list[str]:
    """A line for each node, with numbers in the place of names: those of inputs and results are the caller's."""
    number = {node: f"%{i}" for i, node in enumerate(graph.nodes)}
    lines = []
    for node in graph.nodes:
        args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: _Text(number[n]))
        target = "" if node.op in ("placeholder", "output") else node.target
        lines.append(f"{node.op} {target} {args} {kwargs} {_described(node.meta.get('val', node.meta.get('example_value')))}")
    return lines


class _Text(str):
    """Text that is shown without quotes."""

    __repr__ = str.__str__


def _described(value) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def _entries(folder):
    return {name for name in os.listdir(folder) if len(name) == 64}


def _packed(folder, names) -> bytes:
    """Files as bytes: for each file its name, eight bytes of size, its content."""
    packed = b""
    for name in sorted(names):
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        packed += name.encode() + len(content).to_bytes(8, "little") + content
    return packed


def _unpack(blob, folder):
    at = 0
    while at + 72 <= len(blob):
        name, size = blob[at : at + 64], int.from_bytes(blob[at + 64 : at + 72], "little")
        if not all(c in b"0123456789abcdef" for c in name):
            return  # not an entry of this cache
        with open(os.path.join(folder, name.decode()), "wb") as file:
            file.write(blob[at + 72 : at + 72 + size])
        at += 72 + size
