"""The C structs of a session's last run, for the next one with numpy arrays of the same shapes: only addresses change then."""

from __future__ import annotations


class LastCall:
    """Filled structs, with the shape and dtype of the array that each describes. kept: what else they point at."""

    def __init__(self, numpy, inputs, outputs, arrays, made, kept):
        self.inputs, self.outputs, self._kept = inputs, outputs, kept
        self._ndarray, self._empty = numpy.ndarray, numpy.empty
        self._taken = [(struct, array.shape, array.dtype) for struct, array in zip(inputs, arrays)]
        self._made = [(struct, array.shape, array.dtype) for struct, array in zip(outputs, made)]

    def made_for(self, arrays, out):
        """The arrays of the results, with the structs pointing at all. None if some do not fit: another shape, dtype or kind of value."""
        kind = self._ndarray
        if len(arrays) != len(self._taken):
            return None
        for array, (struct, shape, dtype) in zip(arrays, self._taken):
            if type(array) is not kind or array.shape != shape or array.dtype is not dtype or not array.flags.c_contiguous:
                return None
            struct.data = array.ctypes.data
        if out is None:
            out = [self._empty(shape, dtype) for _, shape, dtype in self._made]
        elif len(out) != len(self._made):
            return None
        for array, (struct, shape, dtype) in zip(out, self._made):
            if type(array) is not kind or array.shape != shape or array.dtype is not dtype or not array.flags.carray:
                return None
            struct.data = array.ctypes.data
        return list(out)


def last_call(numpy, inputs, outputs, arrays, made, kept) -> LastCall | None:
    """For a run that went well. None if a later one has to look at its values again. kept: what fill() returned for each struct."""
    for array in (*arrays, *made):
        if type(array) is not numpy.ndarray or not array.flags.c_contiguous or not array.dtype.isnative:
            return None
    return LastCall(numpy, inputs, outputs, arrays, made, [sizes for _, *sizes in kept])
