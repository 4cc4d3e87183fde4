#include "runtime/overlap.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/strided.h"

namespace ingot::runtime {

void OverlapCheck::operator()(const plan::Function& f, FunctionRef<const HostTensor&(size_t binding)> tensor) {
  spans_.clear();
  for (size_t b = 0; b < f.bindings.size(); ++b) {
    const HostTensor& t = tensor(b);
    const bool written = f.bindings[b].written || f.bindings[b].kind == plan::Binding::Kind::state;
    auto element = static_cast<int64_t>(ir::size_of(t.dtype));
    int64_t low = 0, high = 0, row = 1;
    bool empty = t.data == nullptr;
    for (int d = t.rank; d-- > 0;) {
      empty |= t.dims[d] == 0;
      int64_t reach = (t.dims[d] - 1) * (t.strides != nullptr ? t.strides[d] : row);
      (reach < 0 ? low : high) += reach;
      row *= t.dims[d];
    }
    if (empty) continue;
    if (written && may_overlap_itself(t)) {
      throw Error(Code::invalid_input,
                  fmt::format("several elements of \"{}\" are one place in memory (expand, overlapping windows), and the model writes to it", f.bindings[b].name))
          .fix("give a clone() of it, or compile with an example of this layout");
    }
    const auto* data = static_cast<const std::byte*>(t.data);
    spans_.push_back({data + low * element, data + (high + 1) * element, b, written});
  }
  std::sort(spans_.begin(), spans_.end(), [](const Span& x, const Span& y) { return x.begin < y.begin; });
  // Among the bindings that begin earlier, the ones that end last: of all, and of the written ones.
  const Span *furthest = nullptr, *written = nullptr;
  for (const Span& s : spans_) {
    const Span* met = s.written ? furthest : written;
    if (met != nullptr && s.begin < met->end) {
      const Span &w = s.written && !(met->written && met->binding < s.binding) ? s : *met, &other = &w == &s ? *met : s;
      throw Error(Code::invalid_input, fmt::format("\"{}\" and \"{}\" share memory, and the model writes to \"{}\"", f.bindings[w.binding].name, f.bindings[other.binding].name,
                                                   f.bindings[w.binding].name))
          .fix("give memory of its own to each");
    }
    if (furthest == nullptr || s.end > furthest->end) furthest = &s;
    if (s.written && (written == nullptr || s.end > written->end)) written = &s;
  }
}

}  // namespace ingot::runtime
