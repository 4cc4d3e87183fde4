"""How plans keep the structure of a model's inputs and results: tuples, lists, dicts and their like around leaves.

A structure is "*" for a leaf, or an object {"is": kind, "of": [structures]} with

    "tuple", "list"                 nothing more
    "dict", "OrderedDict"           "keys": strings, whole numbers, bools
    "namedtuple"                    "name": "module:Class", "keys": its field names
    "return_type"                   "name": of one of torch.return_types
    "node"                          "name" of a class that is registered with torch.utils._pytree, "context": plain data that its registration keeps

Reading a structure never imports a module and never runs anything that the file names. A namedtuple's class is looked up among the loaded modules; if it is not there, one is
made from the field names. The class of a "node" is looked up among those that this program has registered. Its own constructor runs when results are put together, with
tensors and the content of "context".
"""

from __future__ import annotations

import collections
import functools
import json
import keyword
import sys
import types
import unicodedata

import torch

from ..errors import FormatError, UnsupportedError
from ..torch_internals.trees import pytree

_LEAF = pytree.tree_structure(0)
_DEEPEST = 50
_BUILT_IN = {tuple, list, dict, collections.OrderedDict, collections.defaultdict, collections.deque, collections.namedtuple}
_RETURN_TYPES = {name: kind for name, kind in vars(torch.return_types).items() if isinstance(kind, type) and issubclass(kind, tuple)}


# ---- writing


def write(spec: pytree.TreeSpec, depth: int = 0):
    """The structure of a pytree as plain data for JSON. UnsupportedError for a structure that a file cannot keep."""
    if spec.is_leaf() and spec.type is None:
        return "*"
    if depth >= _DEEPEST:
        raise UnsupportedError(f"the model's inputs or results are nested more than {_DEEPEST} deep, which a file does not keep")
    kind, context = spec.type, spec.context
    found = {"of": [write(child, depth + 1) for child in spec.children()]}
    if kind in (tuple, list):
        return {"is": kind.__name__, **found}
    if kind in (dict, collections.OrderedDict):
        for key in context:
            if type(key) not in (str, int, bool) or not _is_text(key):
                raise UnsupportedError(f"the model takes or gives a dict with the key {key!r}, which a file does not keep", remedy="use strings or whole numbers as keys")
        return {"is": kind.__name__, "keys": list(context), **found}
    if kind is collections.namedtuple or pytree.is_namedtuple_class(kind):
        named = context if kind is collections.namedtuple else kind
        if not _is_plain_namedtuple(named):
            raise UnsupportedError(f"the model takes or gives a {_name(named)}, a namedtuple with a constructor of its own, which a file does not keep", remedy="return a plain namedtuple, tuple or dict")
        return {"is": "namedtuple", "name": _name(named), "keys": list(named._fields), **found}
    if _RETURN_TYPES.get(kind.__name__) is kind:
        return {"is": "return_type", "name": kind.__name__, **found}
    if kind in _BUILT_IN or kind not in pytree.SUPPORTED_NODES:
        raise UnsupportedError(f"the model takes or gives a {_name(kind)}, whose structure a file does not keep", remedy="use a tuple, list, dict or namedtuple, or a class registered with pytree")
    try:
        return {"is": "node", "name": _name(kind), "context": _plain(context), **found}
    except TypeError:
        raise UnsupportedError(
            f"the model takes or gives a {_name(kind)}, whose registration with pytree keeps {type(context).__name__} data that a file does not hold",
            remedy="return a tuple, list, dict or namedtuple",
        ) from None


def _name(kind) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _is_text(value) -> bool:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def _plain(value, depth=0):
    """Plain data for JSON. A tuple becomes an object, so that it can be read back as a tuple."""
    if depth > _DEEPEST:
        raise TypeError
    if value is None or type(value) in (bool, int, float) or type(value) is str and _is_text(value):
        return value
    if type(value) is list:
        return [_plain(v, depth + 1) for v in value]
    if type(value) is tuple:
        return {"tuple": [_plain(v, depth + 1) for v in value]}
    if type(value) is dict:
        return {"dict": [[_plain(k, depth + 1), _plain(v, depth + 1)] for k, v in value.items()]}
    raise TypeError


def _is_plain_namedtuple(kind) -> bool:
    """True if the constructor only puts its fields into a tuple: that of collections.namedtuple or typing.NamedTuple."""
    made = next((c for c in kind.__mro__ if tuple in c.__bases__ and "_fields" in c.__dict__), None)
    return pytree.is_namedtuple_class(kind) and made is not None and kind.__new__ is made.__new__ and kind.__init__ is object.__init__ and kind._fields == made._fields


# ---- reading


def read(data, where: str, depth: int = 0) -> pytree.TreeSpec:
    """The structure of a pytree from plain data of a file. FormatError for anything else."""
    if data == "*":
        return _LEAF

    def bad(why):
        return FormatError(f"{where}: {why}")

    if not isinstance(data, dict) or not isinstance(data.get("of"), list):
        raise bad('a structure is "*" or an object with "is" and "of"')
    if depth >= _DEEPEST:
        raise bad(f"it is nested more than {_DEEPEST} deep")
    kind = data.get("is")
    children = [read(child, f"{where}.of[{i}]", depth + 1) for i, child in enumerate(data["of"])]
    if kind in ("tuple", "list"):
        return pytree.TreeSpec(tuple if kind == "tuple" else list, None, children)
    if kind in ("dict", "OrderedDict"):
        keys = _keys(data, len(children), (str, int, bool), bad)
        return pytree.TreeSpec(dict if kind == "dict" else collections.OrderedDict, keys, children)
    name = data.get("name")
    if not isinstance(name, str) or kind not in ("namedtuple", "return_type", "node"):
        raise bad(f"the structure is of the unknown kind {kind!r}"[:200])
    if kind == "namedtuple":
        return pytree.TreeSpec(collections.namedtuple, _namedtuple(name, tuple(_keys(data, len(children), (str,), bad)), bad), children)
    if kind == "return_type":
        found = _RETURN_TYPES.get(name)
        if found is None or found.n_sequence_fields != len(children):
            raise bad(f"torch has no return type {name[:80]!r} of {len(children)} values")
        return pytree.TreeSpec(found, None, children)
    return _node(name, data.get("context"), children, where)


def _keys(data, count, kinds, bad):
    keys = data.get("keys")
    if not isinstance(keys, list) or len(keys) != count or any(type(k) not in kinds or not _is_text(k) for k in keys):
        raise bad(f"its keys are not {count} of {', '.join(k.__name__ for k in kinds)}")
    if len(set(keys)) != count:
        raise bad("a key stands there twice")
    return keys


def _namedtuple(name, fields, bad):
    module, _, qualified = name.partition(":")
    found = sys.modules.get(module)
    for part in qualified.split("."):
        found = _own(found).get(part)
    if isinstance(found, type) and _is_plain_namedtuple(found) and found._fields == fields:
        return found
    last = qualified.rpartition(".")[2]
    for word in (last, *fields):
        if not word.isidentifier() or keyword.iskeyword(word) or unicodedata.normalize("NFKC", word) != word or len(word) > 200:
            raise bad(f"{word[:80]!r} is not a name in Python")
    if any(field.startswith("_") for field in fields):
        raise bad("a field of a namedtuple begins with _")
    return _made(last, fields)


@functools.lru_cache(maxsize=1000)
def _made(name, fields):
    return collections.namedtuple(name, fields)  # made in this module, because pickle would import the module that the file names


def _own(found) -> dict:
    """The attributes of a module or class, without a lookup that could run code, as in lazy modules."""
    if isinstance(found, type):
        return type.__getattribute__(found, "__dict__")
    return object.__getattribute__(found, "__dict__") if isinstance(found, types.ModuleType) else {}


def _node(name, context, children, where):
    known = (k for k in list(pytree.SUPPORTED_NODES) if k not in _BUILT_IN and k not in _RETURN_TYPES.values())
    kind = next((k for k in known if name in (_name(k), _serialized_name(k))), None)
    context = _unplain(context, where)
    if kind is None:
        raise UnsupportedError(
            f"the model takes or gives a {name[:200]}, which this program has not registered with pytree",
            remedy="import the module that defines it, and register it as where the model was compiled (torch.export.register_dataclass), before the file is loaded",
        )
    return pytree.TreeSpec(kind, context, children)


def _serialized_name(kind):
    """The name under which a class was registered for torch's files, if it was."""
    found = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
    return found.serialized_type_name if found is not None and isinstance(found.serialized_type_name, str) else None


def _unplain(data, where, depth=0):
    if depth > _DEEPEST:
        raise FormatError(f"{where}.context: it is nested more than {_DEEPEST} deep")
    if data is None or type(data) in (bool, int, float) or type(data) is str and _is_text(data):
        return data
    if isinstance(data, list):
        return [_unplain(v, where, depth + 1) for v in data]
    if isinstance(data, dict) and len(data) == 1:
        if isinstance(values := data.get("tuple"), list):
            return tuple(_unplain(v, where, depth + 1) for v in values)
        if isinstance(pairs := data.get("dict"), list) and all(isinstance(p, list) and len(p) == 2 for p in pairs):
            made = [(_unplain(k, where, depth + 1), _unplain(v, where, depth + 1)) for k, v in pairs]
            try:
                return dict(made)
            except TypeError:
                pass  # an invalid key
    raise FormatError(f"{where}.context: it is not plain data")


def read_of_torch(text: str, where: str) -> pytree.TreeSpec:
    """A structure in torch.export's form, which `ingot compile` copies unchanged from a `.pt2` file into a plan."""
    try:
        version, data = json.loads(text)
        if version != 1:
            raise ValueError
        found = _translated(data)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise FormatError(f"{where}: it is not a structure of torch's") from None
    return read(found, where)


def _translated(data):
    """A structure in torch's form, translated into this module's form. Any exception for invalid data."""
    name, context = data["type"], data["context"]
    if name is None:
        return "*"
    found = {"of": [_translated(child) for child in data["children_spec"]]}
    if name == "collections.namedtuple":  # torch's form lacks the fields
        kind = next((k for k in pytree.SUPPORTED_NODES if context == _serialized_name(k)), None)
        if kind is None:
            raise UnsupportedError(f"the model takes or gives the namedtuple {context[:200]!r}, which this program has not registered with pytree", remedy="register it before the file is loaded")
        return {"is": "namedtuple", "name": _name(kind), "keys": list(kind._fields), **found}
    context = json.loads(context)
    kinds = {"builtins.tuple": "tuple", "builtins.list": "list", "builtins.dict": "dict", "collections.OrderedDict": "OrderedDict"}
    return {"is": kinds.get(name, "node"), "keys": context, "name": name, "context": _plain(context), **found}


# ---- what a call does with structures


def check_call(spec: pytree.TreeSpec, where: str):
    """Raises FormatError unless the structure is that of a call: a tuple of arguments and a dict of keyword arguments."""
    parts = spec.children() if spec.type is tuple else []
    if len(parts) != 2 or parts[0].type is not tuple or parts[1].type is not dict or not all(isinstance(k, str) for k in parts[1].context):
        raise FormatError(f"{where}: it is not a tuple of arguments and a dict of keywords")


def alike(given: pytree.TreeSpec, wanted: pytree.TreeSpec, leaves) -> bool:
    """Whether inputs of one structure may be passed for another. Namedtuples are compared by their fields, because the class of one from a file may have been made here. A registered class may keep
    sizes of its own tensors as numbers (a static cache its length): they may be those of the tensors given, since the engine checks these. leaves: the given values, in order."""
    if given == wanted:
        return True
    if given.type is None or wanted.type is None or str(given.type) != str(wanted.type) or len(given.children()) != len(wanted.children()):
        return False
    if given.type is collections.namedtuple:
        same = given.context._fields == wanted.context._fields
    elif given.type in _BUILT_IN or given.type in _RETURN_TYPES.values():
        same = given.context == wanted.context
    else:
        same = _same_context(given.context, wanted.context, {size for leaf in leaves for size in getattr(leaf, "shape", ())})
    at = 0
    for child, other in zip(given.children(), wanted.children()):
        same = same and alike(child, other, leaves[at : at + child.num_leaves])
        at += child.num_leaves
    return same


def _same_context(given, wanted, sizes) -> bool:
    if type(given) is type(wanted) is int and given in sizes:
        return True
    if type(given) is type(wanted) and isinstance(given, (list, tuple)):
        return len(given) == len(wanted) and all(_same_context(a, b, sizes) for a, b in zip(given, wanted))
    if type(given) is type(wanted) is dict:
        return given.keys() == wanted.keys() and all(_same_context(given[key], wanted[key], sizes) for key in given)
    return given == wanted


def has_classes(spec: pytree.TreeSpec) -> bool:
    """Whether the structure has classes that were registered with pytree."""
    return spec.type is not None and (spec.type not in _BUILT_IN and spec.type not in _RETURN_TYPES.values() or any(map(has_classes, spec.children())))


def unflatten(results, spec: pytree.TreeSpec):
    """Results in the structure from a file. A registered class may refuse the file's context."""
    try:
        return pytree.tree_unflatten(results, spec)
    except Exception as problem:
        raise FormatError(f"the results of the model cannot be put together as the file says: {type(problem).__name__}: {problem}", remedy="register the classes as where the model was compiled") from problem
