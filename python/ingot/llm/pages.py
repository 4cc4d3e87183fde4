"""Caches in pages: the keys and values of all states of a model are pages of one pool. A sequence is a row of numbers of pages, so it grows page by page, a fork shares pages, and nothing moves.

The pool is address space for all pages that there may be; memory comes when a page is first written (the kernel of the system gives it), and stays in the pool when a state lets go of a page.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import mmap
import os
import threading

import numpy as np
import torch

from ..errors import FormatError, InputError, MemoryError, OptionError
from ..running import state_file
from . import saved

# Tokens of a page of models that are compiled here. Decode over pages, of the time over caches in one piece (AMD EPYC, one thread, CPU time, least tenth of 60 interleaved steps; two layers of 8 heads of
# 64, float32; 1,024 and 4,096 tokens, and 8 rows of 1,024): pages of 32 take 1.03, 1.05 and 1.08, of 64 take 1.01, 1.02 and 1.00 (docs/decisions/0140).
PAGE = 64
# The most pages of a pool: a bound of sizes that the plan checks.
MAX_PAGES = 1 << 22
_NORESERVE = 0x4000  # of Linux's mmap: no memory is set aside; the module names it in new versions of Python only


def columns_of(max_length: int, page: int) -> int:
    """Columns of the block table of a sequence of so many tokens, with one for the page that takes ids that do not count."""
    return -(-max_length // page) + 1


class Pool:
    """Pages, each with the keys and values of `page` tokens of all layers. Threads share it.

    tensors: of each layer's keys and values [pages, heads, page, width], by their names in the plan. is_limited: whether kv_bytes was given.
    """

    def __init__(self, bindings: list[dict], kv_bytes: int | None):
        shapes = {b["name"]: (tuple(b["dims"][1:]), getattr(torch, b["dtype"])) for b in bindings}
        self.page = next(iter(shapes.values()))[0][1]
        self.page_bytes = sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes.values())
        self.is_limited = kv_bytes is not None
        self._limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if kv_bytes is None else kv_bytes
        if type(self._limit) is not int or self._limit < 2 * self.page_bytes:
            raise OptionError(f"kv_bytes is {kv_bytes!r}, and has to be at least {2 * self.page_bytes}: two pages of {self.page} tokens")
        self.capacity = min(self._limit // self.page_bytes, MAX_PAGES)
        self.tensors = {name: _reserved((self.capacity, *shape), dtype) for name, (shape, dtype) in shapes.items()}
        self._lock = threading.RLock()  # a collection of garbage inside a call may drop another state's pages
        self._free: list[int] = []  # a heap: the first ones are taken, so that a sequence's pages are near each other, in order
        self._owners: list[int] = []  # of each page that was ever taken

    @property
    def used(self) -> int:
        """How many pages have an owner."""
        return len(self._owners) - len(self._free)

    def take(self, count: int) -> list[int]:
        """Pages with one owner. Raises InputError, and takes none, if there are not so many."""
        with self._lock:
            fresh = max(0, count - len(self._free))
            if len(self._owners) + fresh > self.capacity:
                raise InputError(
                    f"{count} pages of {self.page} tokens are needed, and {self.capacity - self.used} of {self.capacity} are free: the states would take more than kv_bytes, {self._limit}",
                    remedy="drop states, or rewind or reset them, or compile or load with a larger kv_bytes",
                )
            pages = [heapq.heappop(self._free) for _ in range(count - fresh)] + list(range(len(self._owners), len(self._owners) + fresh))
            self._owners.extend([1] * fresh)
            for page in pages:
                self._owners[page] = 1
            return pages

    def share(self, pages: list[int]):
        """Each gets one owner more."""
        with self._lock:
            for page in pages:
                self._owners[page] += 1

    def drop(self, pages: list[int]):
        """Each loses an owner. A page without one is free."""
        with self._lock:
            for page in pages:
                self._owners[page] -= 1
                if self._owners[page] == 0:
                    heapq.heappush(self._free, page)

    def is_shared(self, page: int) -> bool:
        with self._lock:
            return self._owners[page] > 1

    def copy(self, to: int, source: int):
        for tensor in self.tensors.values():
            tensor[to] = tensor[source]


def _reserved(shape, dtype) -> torch.Tensor:
    """A tensor of zeros, whose memory comes when it is first written."""
    size = math.prod(shape) * dtype.itemsize
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except (OSError, OverflowError, ValueError) as problem:
        raise MemoryError(f"address space of {size} bytes for keys and values could not be had: {problem}", remedy="give kv_bytes: the most that they may take") from None
    with contextlib.suppress(OSError):  # a system without them
        memory.madvise(mmap.MADV_HUGEPAGE)  # as the engines' memory has: attention reads many places
    return torch.frombuffer(memory, dtype=dtype).view(shape)


class PagedCaches:
    """Makes the memory of a model's states, and runs steps on it."""

    def __init__(self, engine, max_batch: int, max_length: int, kv_bytes: int | None):
        self.pool = Pool([b for b in engine.inputs() if b.get("written")], kv_bytes)
        self._engine, self._max_batch, self._max_length, self._columns = engine, max_batch, max_length, columns_of(max_length, self.pool.page)
        self._runners: list = []

    def new(self, batch: int) -> "Pages":
        return Pages(self.pool, [[] for _ in range(batch)])

    def load(self, path) -> tuple["Pages", list[int]]:
        batch, places = saved.sizes_of(path)
        if not 1 <= batch <= self._max_batch:
            raise InputError(f"{os.fspath(path)} has {batch} sequences, and the model was compiled for 1 to {self._max_batch}", remedy="ingot.llm.compile(.., max_batch=..)")
        tensors = {name: torch.empty(batch, t.shape[1], places or 0, t.shape[3], dtype=t.dtype) for name, t in self.pool.tensors.items()}
        tensors["position"] = torch.empty(batch, dtype=torch.int64)
        state_file.read(tensors, path)
        lengths = tensors["position"].tolist()
        if not all(0 <= n < min(places, self._max_length + 1) for n in lengths):
            raise FormatError(f"{os.fspath(path)} says that its sequences have {lengths} tokens, it has room for {places - 1}, and the model takes {self._max_length}")
        page = self.pool.page
        pages = self.new(batch)
        self.make_room([pages], [0] * batch, lengths)
        for row, (numbers, length) in enumerate(zip(pages.rows, lengths)):
            for name, pool in self.pool.tensors.items():
                for n, number in enumerate(numbers):
                    at, count = n * page, min(page, length - n * page)
                    pool[number, :, :count] = tensors[name][row, :, at : at + count]
        return pages, lengths

    def _needed(self, states, lengths, counts) -> tuple[list[list[int]], list[bool], list[int]]:
        """Of each sequence the pages, whether its last page is to be copied, and how many pages it wants more, to take so many tokens more."""
        rows, page = [row for pages in states for row in pages.rows], self.pool.page
        copied = [bool(count and length % page and self.pool.is_shared(row[-1])) for row, length, count in zip(rows, lengths, counts)]
        added = [max(0, -(-(length + count) // page) - len(row)) for row, length, count in zip(rows, lengths, counts)]
        return rows, copied, added

    def has_room(self, states: list["Pages"], lengths: list[int], counts: list[int]) -> bool:
        """Whether `make_room` would find the pages."""
        _, copied, added = self._needed(states, lengths, counts)
        return sum(added) + sum(copied) <= self.pool.capacity - self.pool.used

    def make_room(self, states: list["Pages"], lengths: list[int], counts: list[int]):
        """Gives each sequence pages of its own for so many tokens more. All or, with an InputError, none."""
        rows, copied, added = self._needed(states, lengths, counts)
        if not any(copied) and not any(added):
            return
        new = iter(self.pool.take(sum(added) + sum(copied)))
        for row, is_copied, count in zip(rows, copied, added):
            if is_copied:  # another sequence reads this page
                old, row[-1] = row[-1], next(new)
                self.pool.copy(row[-1], old)
                self.pool.drop([old])
            row.extend(next(new) for _ in range(count))
        for pages in states:
            pages.changed()

    @contextlib.contextmanager
    def runner(self):
        """A function (states, lengths, ids, counts, take, out, weights) that runs the plan."""
        try:
            runner = self._runners.pop()
        except IndexError:  # other threads have all
            runner = _Runner(self._engine, self.pool, self._columns)
        try:
            yield runner.run
        finally:
            self._runners.append(runner)


class _Runner:
    """A session, with what no two runs may share: the engine's state, which is the pool, and a page for ids that do not count."""

    def __init__(self, engine, pool: Pool, columns: int):
        self._columns, self._session = columns, engine.session()
        (self._spare,) = pool.take(1)
        self._state = engine.new_state(pages=pool.capacity)
        for name, tensor in pool.tensors.items():
            self._state._bind(name, tensor)

    def run(self, states, lengths, ids, counts, take, out, weights):
        longest = max(1, *(len(row) for pages in states for row in pages.rows))
        columns = min(1 << longest.bit_length(), self._columns)  # a power of two, so that few sizes of a table occur; more than the pages
        tables = [pages.table(columns, self._spare) for pages in states]
        table = tables[0] if len(tables) == 1 else np.concatenate(tables)
        self._session.run(ids, counts, take, torch.from_numpy(table), torch.tensor(lengths), state=self._state, out=[out], weights=weights)


class Pages:
    """The memory of one state: of each sequence the numbers of its pages, the first tokens' first."""

    def __init__(self, pool: Pool, rows: list[list[int]]):
        self._pool, self.rows = pool, rows
        self._table: tuple[int, np.ndarray] | None = None

    def __del__(self):
        self._pool.drop([page for row in self.rows for page in row])

    @property
    def bytes(self) -> int:
        return sum(map(len, self.rows)) * self._pool.page_bytes

    def table(self, columns: int, spare: int) -> np.ndarray:
        """int64 [batch, columns], with page `spare` after a sequence's own."""
        if self._table is None or self._table[0] != spare or self._table[1].shape[1] != columns:
            table = np.full((len(self.rows), columns), spare, np.int64)
            for row, numbers in enumerate(self.rows):
                table[row, : len(numbers)] = numbers
            self._table = spare, table
        return self._table[1]

    def changed(self):
        self._table = None

    def fork(self) -> "Pages":
        return self.reordered(list(range(len(self.rows))))

    def reordered(self, rows: list[int]) -> "Pages":
        """With sequence rows[n] as sequence n, on the same pages."""
        taken = [list(self.rows[row]) for row in rows]
        self._pool.share([page for row in taken for page in row])
        return Pages(self._pool, taken)

    def keep(self, lengths: list[int]):
        """Each sequence has so many tokens, and no more."""
        for row, length in zip(self.rows, lengths):
            kept = -(-length // self._pool.page)
            self._pool.drop(row[kept:])
            del row[kept:]
        self.changed()

    def save(self, path, lengths: list[int]):
        tensors = {"position": torch.tensor(lengths)}
        for name, pool in self._pool.tensors.items():
            tensors[name] = torch.zeros(len(lengths), pool.shape[1], max(1, *lengths) + 1, pool.shape[3], dtype=pool.dtype)
            for row, (numbers, length) in enumerate(zip(self.rows, lengths)):
                tensors[name][row, :, :length] = pool[numbers].transpose(0, 1).flatten(1, 2)[:, :length]
        state_file.write(tensors, path)
