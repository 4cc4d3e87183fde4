#include "compile/passes/pad_channels.h"

#include "compile/buffer_view.h"
#include "compile/passes/tuning.h"

namespace ingot::compile {

using namespace ir;

bool rows_are_windows(const Graph& g, const Node& matmul) {
  const Node& rows = g.producer(matmul.in[0]);
  if (rows.op != Op::reshape) return false;
  const Node& windows = g.producer(rows.in[0]);
  return windows.op == Op::view && !windows.attributes.map("map").fill && !is_bijective(windows.attributes.map("map"), g.type(windows.in[0]).dims);
}

int64_t padded_channels(int64_t channels) { return (channels + tuning::channels_read_at_once - 1) / tuning::channels_read_at_once * tuning::channels_read_at_once; }

Handle with_zeros(const Handle& x, size_t axis, int64_t count) {
  Dims none(x.dims().size(), Dim(0)), more = none;
  more[axis] = count;
  return pad(x, none, more, 0);
}

}  // namespace ingot::compile
