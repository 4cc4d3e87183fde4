// The entries of a state with sizes of its own: inputs that the model writes.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "runtime/state.h"
#include "runtime/strided.h"

namespace ingot::runtime {

namespace {

constexpr int64_t max_bytes = int64_t{1} << 46;

uint64_t bytes_at(const plan::Weight& what) {
  auto bytes = static_cast<int64_t>(ir::size_of(what.dtype));
  for (int64_t d : what.dims) {
    if (d < 0 || __builtin_mul_overflow(bytes, d, &bytes) || bytes > max_bytes) {
      throw Error(Code::invalid_input, fmt::format("\"{}\" of sizes [{}] is too large for a state", what.name, fmt::join(what.dims, ", "))).fix("give smaller sizes");
    }
  }
  return static_cast<uint64_t>(bytes);
}

// Values of a function's symbols: from `sizes`, else the usual ones. Marks in `known` the names that it has.
std::vector<int64_t> symbols_at(const plan::Function& f, const State::Sizes& sizes, std::vector<bool>& known) {
  std::vector<int64_t> out;
  for (const plan::Symbol& s : f.symbols) {
    out.push_back(s.opt);
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].first != s.name) continue;
      known[i] = true;
      out.back() = sizes[i].second;
      if (out.back() >= s.min && out.back() <= s.max) continue;
      throw Error(Code::invalid_input, fmt::format("size \"{}\" of a state is {}, outside the range {}..{} the plan was built for", s.name, out.back(), s.min, s.max))
          .fix("give a size in this range, or compile with a wider one");
    }
  }
  return out;
}

void check_known(const plan::Plan& plan, const State::Sizes& sizes, const std::vector<bool>& known) {
  const auto unknown = std::find(known.begin(), known.end(), false);
  if (unknown == known.end()) return;
  std::vector<std::string> names;
  for (const plan::Function& f : plan.functions) {
    for (const plan::Symbol& s : f.symbols) {
      if (std::find(names.begin(), names.end(), s.name) == names.end()) names.push_back(s.name);
    }
  }
  throw Error(Code::invalid_input, fmt::format("the plan has no size \"{}\"", sizes[static_cast<size_t>(unknown - known.begin())].first))
      .fix(fmt::format("its sizes are {}", names.empty() ? "all fixed" : fmt::format("{}", fmt::join(names, ", "))));
}

// Copies elements to the same indices of `to`, which is dense and larger.
void copy_into(std::byte* to, const std::vector<int64_t>& to_dims, const HostTensor& from, backend::Stream& stream) {
  auto run = static_cast<int64_t>(ir::size_of(from.dtype));  // bytes that stay contiguous
  int axis = from.rank;
  while (axis > 0 && from.dims[axis - 1] == to_dims[static_cast<size_t>(axis - 1)]) run *= from.dims[--axis];
  int64_t step = run;  // from one index of the innermost growing axis to the next
  int64_t runs = 1;
  if (axis > 0) run *= from.dims[--axis];
  for (int d = 0; d < axis; ++d) runs *= from.dims[d];
  if (run == 0) return;
  const auto* data = static_cast<const std::byte*>(from.data);
  for (int64_t n = 0; n < runs; ++n) {
    int64_t rest = n, offset = 0, stride = from.rank > 0 ? step * to_dims[static_cast<size_t>(axis)] : 0;
    for (int d = axis; d-- > 0;) {
      offset += rest % from.dims[d] * stride;
      rest /= from.dims[d];
      stride *= to_dims[static_cast<size_t>(d)];
    }
    stream.copy(to + offset, data + n * run, static_cast<size_t>(run));
  }
}

}  // namespace

// The row-major inputs that functions write, by name. A buffer of the same name wins. Functions called by regions use the memory of the function around them.
std::vector<plan::Weight> State::inputs_at(const Sizes& sizes) const {
  std::vector<plan::Weight> out;
  std::vector<bool> known(sizes.size());
  auto taken = [&](const std::string& name) {
    return std::any_of(out.begin(), out.end(), [&](const plan::Weight& w) { return w.name == name; }) ||
           std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.weight != no_weight && e.what.name == name; });
  };
  auto is_entry = [&](const plan::Binding& b) { return b.kind == plan::Binding::Kind::input && b.written && b.order.empty() && !taken(b.name); };
  const std::vector<bool> called = plan::called_functions(weights_->plan());
  for (size_t n = 0; n < called.size(); ++n) {
    const plan::Function& f = weights_->plan().functions[n];
    if (called[n]) continue;
    const std::vector<int64_t> symbols = symbols_at(f, sizes, known);
    if (std::none_of(f.bindings.begin(), f.bindings.end(), is_entry)) continue;
    std::vector<int64_t> values(f.sizes.code.size());
    evaluate(f.sizes, symbols, values);
    for (const plan::Binding& b : f.bindings) {
      if (!is_entry(b)) continue;
      plan::Weight& what = out.emplace_back();
      what.name = b.name;
      what.dtype = b.dtype;
      for (plan::SizeRef d : b.dims) what.dims.push_back(values[d]);
      what.bytes = bytes_at(what);
    }
  }
  check_known(weights_->plan(), sizes, known);
  return out;
}

void State::grow(const Sizes& sizes) {
  Sizes all = sizes_;
  for (const auto& [name, value] : sizes) {
    auto known = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.first == name; });
    if (known == all.end()) known = all.insert(all.end(), {name, 0});
    known->second = value;
  }
  with_stream([&](backend::Stream& stream) {
    struct Larger {
      Entry* entry;
      plan::Weight what;
      MemoryBlock block;
    };
    std::vector<Larger> larger;
    for (plan::Weight& what : inputs_at(all)) {
      Entry& e = entries_[input(what.name)];
      if (e.what.dims == what.dims) continue;
      const std::string shapes = fmt::format("entry \"{}\" is {}, and would become {}", what.name, shape_text(e.memory), shape_text(value_of(what, nullptr, nullptr)));
      for (size_t d = 0; d < what.dims.size(); ++d) {
        if (what.dims[d] < e.what.dims[d]) throw Error(Code::invalid_input, shapes + ", which is smaller").fix("make another state of these sizes");
      }
      if (e.bound) throw Error(Code::invalid_input, shapes + ", but is in memory that was bound").fix("bind larger memory to a state of these sizes");
      larger.push_back({&e, std::move(what), {}});
    }
    for (Larger& l : larger) {
      if (l.entry->memory.data == nullptr) continue;
      l.block = room(l.what);
      MemoryBlock zeros(std::max<size_t>(l.what.bytes, 1), allocator_);
      std::memset(zeros.data(), 0, l.what.bytes);
      stream.copy(l.block.data(), zeros.data(), l.what.bytes);
      copy_into(l.block.data(), l.what.dims, l.entry->memory, stream);
    }
    stream.wait();
    for (Larger& l : larger) {
      l.entry->what = std::move(l.what);
      keep_memory(*l.entry, std::move(l.block));
    }
    sizes_ = std::move(all);
  });
}

}  // namespace ingot::runtime
