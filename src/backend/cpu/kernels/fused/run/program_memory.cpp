// How a bound program reads and writes memory: a block of an operand becomes a value, and a value goes to its place.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/tuning.h"
#include "base/error.h"

namespace ingot::kernels {

using ir::DType;

// The memory of a guarded load, if its elements are contiguous and all inside the operand; else null.
const std::byte* Evaluator::whole(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t begin, int64_t n) const {
  const std::vector<int64_t>&strides = b_.strides[i.operand], &dims = b_.dims[i.operand], &lower = b_.lower[id], &step = b_.step[id];
  int64_t offset = 0;
  const size_t last = lower.size() - 1;
  for (size_t d = 0; d <= last; ++d) {
    const int64_t c = (d < last ? at[d] * step[d] : begin) - lower[d];
    if (c < 0 || c + (d < last ? 1 : n) > dims[d]) return nullptr;
    offset += c * strides[d];
  }
  return data(i.operand) + offset * static_cast<int64_t>(ir::size_of(p_.memory[i.operand]));
}

// Loads n elements that are contiguous along the innermost axis, from row coordinates `row`.
void Evaluator::load_segment(const ProgramInstruction& i, uint32_t id, const int64_t* at, const int64_t* row, int64_t n, void* to, int64_t done) {
  const DType type = p_.memory[i.operand];
  const std::byte* const from = data(i.operand);
  const std::vector<int64_t>&strides = b_.strides[i.operand], &dims = b_.dims[i.operand];
  int outer = p_.domain_rank - p_.row_rank;
  size_t memory = ir::size_of(type), element = size_of(i.cls);
  auto* out = static_cast<std::byte*>(to) + static_cast<size_t>(done) * element;
  const BlockOps& ops = block_ops();
  int64_t offset = 0;
  int64_t first = 0, last = n;  // the part inside the bounds
  if (!i.lower.empty()) {
    const std::vector<int64_t>&lower = b_.lower[id], &step = b_.step[id];
    bool outside = false;  // on an axis before the last
    const int64_t by = step.back();
    for (int a = 0; a < p_.domain_rank; ++a) {
      auto d = static_cast<size_t>(a);
      int64_t c = (a < outer ? at[a] : row[a - outer]) * step[d] - lower[d];
      if (a == p_.domain_rank - 1) {
        // The number of steps to the first index >= 0, and to the first one past the end.
        auto steps = [&](int64_t to) { return by == 1 ? to : to > 0 ? (to + by - 1) / by : 0; };
        first = std::clamp<int64_t>(steps(-c), 0, n);
        last = std::clamp<int64_t>(steps(dims[d] - c), first, n);
        offset += (c + first * by) * strides[d];
      } else if (c < 0 || c >= dims[d]) {
        outside = true;
      } else {
        offset += c * strides[d];
      }
    }
    if (outside) first = last = 0;
    BlockArgument fill{nullptr, true};
    float f = static_cast<float>(i.f);
    uint8_t bit = i.i != 0;
    fill.data = i.cls == Class::f32   ? static_cast<const void*>(&f)
                : i.cls == Class::f64 ? static_cast<const void*>(&i.f)
                : i.cls == Class::b8  ? static_cast<const void*>(&bit)
                                      : &i.i;
    const DType as = dtype_of(i.cls);
    if (first > 0) ops.store(as, out, 1, fill, first);
    if (last < n) ops.store(as, out + static_cast<size_t>(last) * element, 1, fill, n - last);
    if (first < last)
      ops.load(type, out + static_cast<size_t>(first) * element, from + offset * static_cast<int64_t>(memory), by * strides[static_cast<size_t>(p_.domain_rank - 1)], last - first);
    return;
  }
  for (int a = 0; a < p_.domain_rank; ++a) offset += (a < outer ? at[a] : row[a - outer]) * strides[static_cast<size_t>(a)];
  int64_t stride = strides[static_cast<size_t>(p_.domain_rank - 1)];
  if (i.in.empty()) return ops.load(type, out, from + offset * static_cast<int64_t>(memory), stride, n);
  bool all_uniform = true;
  for (uint32_t reg : i.in) all_uniform = all_uniform && b_.uniform[reg];
  offset += uniform_places(i);
  if (!all_uniform) return gather_segment(i, offset, n, out, done);
  ops.load(type, out, from + offset * static_cast<int64_t>(memory), stride, n);
}

// The address offset of one index, checked.
int64_t Evaluator::index_at(const ProgramInstruction& i, size_t k, int64_t e) const {
  const uint32_t reg = i.in[k];
  const size_t axis = static_cast<size_t>(p_.domain_rank) + i.axes[k];
  const int64_t v = static_cast<const int64_t*>(values_[reg].data)[b_.uniform[reg] ? 0 : e], extent = b_.dims[i.operand][axis];
  if (v < 0 || v >= extent) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", v, extent);
  return v * b_.strides[i.operand][axis];
}

// The address offsets of a block's indices.
void Evaluator::find_places(const ProgramInstruction& i, Value& v, int64_t* to, int64_t n) {
  v.data = to;
  int64_t base = 0;
  if (n == 0 && nothing(i.operand)) {
    *to = 0;
    return;
  }
  const bool uniform = to == reinterpret_cast<int64_t*>(&v.scalar);
  for (size_t k = 0; k < i.in.size(); ++k) {
    if (uniform || b_.uniform[i.in[k]]) base += index_at(i, k, 0);
  }
  if (uniform) {
    *to = base;
    return;
  }
  bool good = true, first = true;
  const auto rank = static_cast<size_t>(p_.domain_rank);
  const BlockOps& ops = block_ops();
  for (size_t k = 0; k < i.in.size(); ++k) {
    if (b_.uniform[i.in[k]]) continue;
    const size_t axis = rank + i.axes[k];
    const auto* indices = static_cast<const int64_t*>(values_[i.in[k]].data);
    const int64_t stride = b_.strides[i.operand][axis], extent = b_.dims[i.operand][axis];
    good = good && (first ? ops.set_places(to, base, indices, stride, extent, n) : ops.add_places(to, indices, stride, extent, n));
    first = false;
  }
  for (int64_t e = 0; !good && e < n; ++e) {
    for (size_t k = 0; k < i.in.size(); ++k) index_at(i, k, e);
  }
}

// The part of a load's offset that is constant in the block.
int64_t Evaluator::uniform_places(const ProgramInstruction& i) const {
  int64_t sum = 0;
  for (uint32_t in : i.in) {
    if (b_.uniform[in]) sum += *static_cast<const int64_t*>(values_[in].data);
  }
  return sum;
}

// Loads n elements at individual offsets, starting at element `done` of the block. `offset`: of the block's first element, without its indices.
void Evaluator::gather_segment(const ProgramInstruction& i, int64_t offset, int64_t n, void* to, int64_t done) {
  const DType type = p_.memory[i.operand];
  const int64_t stride = b_.strides[i.operand][static_cast<size_t>(p_.domain_rank) - 1];
  const std::byte* const from = data(i.operand) + offset * static_cast<int64_t>(ir::size_of(type));
  const BlockOps& ops = block_ops();
  const int64_t* places[16];
  int varying = 0;
  for (uint32_t in : i.in) {
    if (!b_.uniform[in]) places[varying++] = static_cast<const int64_t*>(values_[in].data) + done;
  }
  if (varying == 1 && stride == 0) return ops.gather(type, to, from, places[0], n);
  constexpr int64_t capacity = fused_tuning::gathered_elements;
  int64_t sums[capacity];
  const size_t element = size_of(i.cls);
  for (int64_t start = 0; start < n; start += capacity) {
    const int64_t count = std::min(capacity, n - start);
    for (int64_t e = 0; e < count; ++e) sums[e] = (start + e) * stride + places[0][start + e];
    for (int v = 1; v < varying; ++v) {
      for (int64_t e = 0; e < count; ++e) sums[e] += places[v][start + e];
    }
    ops.gather(type, static_cast<std::byte*>(to) + static_cast<size_t>(start) * element, from, sums, count);
  }
}

void Evaluator::load(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t begin, int64_t n, void* to) {
  int64_t row[16];
  if (p_.row_rank == 1) {
    row[0] = begin;
    return load_segment(i, id, at, row, n, to, 0);
  }
  const int64_t* extent = b_.domain.data() + (p_.domain_rank - p_.row_rank);
  for (int64_t done = 0; done < n;) {
    int64_t rest = begin + done;
    for (int a = p_.row_rank - 1; a >= 0; --a) {
      const int64_t size = std::max<int64_t>(extent[a], 1);  // a value that is constant along the row is read even if the row is empty
      row[a] = rest % size;
      rest /= size;
    }
    int64_t run = std::min(n - done, std::max<int64_t>(extent[p_.row_rank - 1], 1) - row[p_.row_rank - 1]);
    load_segment(i, id, at, row, run, to, done);
    done += run;
  }
}

// Loads whole lines of an operand of joined short lines, n elements in all. An operand that is the same for all lines is repeated once per row.
void Evaluator::load_lines(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t begin, int64_t n) {
  Value& v = values_[id];
  const int64_t* strides = b_.strides[i.operand].data();
  const int before = p_.domain_rank - 2;
  const int64_t offset = offset_of(i.operand, at, before);
  const bool repeats = b_.repeats[id] != 0;
  if (repeats && v.started && v.best == offset) return;
  const DType type = p_.memory[i.operand];
  const auto memory = static_cast<int64_t>(ir::size_of(type)), stride = strides[before + 1];
  const size_t bytes = static_cast<size_t>(b_.line) * size_of(i.cls);
  const bool same = stride == 1 && has_block_layout(type);
  auto* to = static_cast<std::byte*>(repeats ? slot(id) : target(id, at, begin));
  v.data = to;
  auto line = [&](const std::byte* from) {
    if (same) {
      std::memcpy(to, from, bytes);
    } else {
      block_ops().load(type, to, from, stride, b_.line);
    }
    to += bytes;
  };
  const std::byte* from = data(i.operand) + (offset + begin / b_.line * strides[before]) * memory;
  if (!repeats) {
    for (int64_t done = 0; done < n; done += b_.line, from += strides[before] * memory) line(from);
    return;
  }
  line(from);
  for (int64_t more = static_cast<int64_t>(b_.block) / b_.line - 1; more > 0; --more, to += bytes) std::memcpy(to, to - bytes, bytes);
  v.best = offset;
  v.started = true;
}

// True if the row is empty and this operand has no element for it, not even a constant one.
bool Evaluator::nothing(uint32_t operand) const {
  for (size_t d = 0; d < b_.dims[operand].size(); ++d) {
    if (b_.dims[operand][d] == 0 && b_.strides[operand][d] != 0) return true;
  }
  return false;
}

// The destination of an instruction's block: its slot, or the memory to which it is stored.
void* Evaluator::target(uint32_t id, const int64_t* at, int64_t begin) const {
  const uint8_t s = b_.in_place[id];
  if (s == 0 || !direct_) return slot(id);
  const ProgramStore& st = p_.stores[s - 1u];
  const int64_t offset = begin + offset_of(st.operand, at, p_.domain_rank - 1);
  return data(st.operand) + offset * static_cast<int64_t>(ir::size_of(p_.memory[st.operand]));
}

void Evaluator::write(size_t s, const int64_t* at, int64_t begin, int64_t n) {
  const ProgramStore& st = p_.stores[s];
  if (b_.in_place[st.reg] != 0 && direct_) return;  // it is there already
  const DType type = p_.memory[st.operand];
  std::byte* const into = data(st.operand);
  if (into == nullptr) return;  // an empty result has no memory
  const std::vector<int64_t>& strides = b_.strides[st.operand];
  int outer = p_.domain_rank - p_.row_rank;
  size_t memory = ir::size_of(type);
  const int64_t base = offset_of(st.operand, at, outer);
  BlockArgument x = argument(st.reg);
  const BlockOps& ops = block_ops();
  bool once = true;
  for (int a = outer; a < p_.domain_rank; ++a) once = once && b_.dims[st.operand][static_cast<size_t>(a)] == 1;
  if (once) {
    if (begin == 0) ops.store(type, into + base * static_cast<int64_t>(memory), 1, x, 1);
    return;
  }
  if (p_.row_rank == 1) {
    const int64_t stride = strides[static_cast<size_t>(outer)];
    return ops.store(type, into + (base + begin * stride) * static_cast<int64_t>(memory), stride, x, n);
  }
  if (b_.line != 0) {
    if (is_solid(b_, p_, st.operand)) return ops.store(type, into + (base + begin) * static_cast<int64_t>(memory), 1, x, n);
    return write_lines(st, at, begin, n);
  }
  size_t element = x.uniform ? 0 : size_of(p_.code[st.reg].cls);
  const int64_t* extent = b_.domain.data() + outer;
  for (int64_t done = 0; done < n;) {
    int64_t rest = begin + done, offset = base, inner = 0;
    for (int a = p_.row_rank - 1; a >= 0; --a) {
      int64_t c = rest % extent[a];
      if (a == p_.row_rank - 1) inner = c;
      offset += c * strides[static_cast<size_t>(outer + a)];
      rest /= extent[a];
    }
    int64_t run = std::min(n - done, extent[p_.row_rank - 1] - inner);
    BlockArgument part{static_cast<const std::byte*>(x.data) + static_cast<size_t>(done) * element, x.uniform};
    ops.store(type, into + offset * static_cast<int64_t>(memory), strides[static_cast<size_t>(p_.domain_rank - 1)], part, run);
    done += run;
  }
}

// Stores whole lines with gaps between them.
void Evaluator::write_lines(const ProgramStore& st, const int64_t* at, int64_t begin, int64_t n) {
  const DType type = p_.memory[st.operand];
  const int64_t* strides = b_.strides[st.operand].data();
  const int before = p_.domain_rank - 2;
  const auto memory = static_cast<int64_t>(ir::size_of(type)), stride = strides[before + 1];
  const int64_t offset = offset_of(st.operand, at, before) + begin / b_.line * strides[before];
  BlockArgument x = argument(st.reg);
  const size_t bytes = x.uniform ? 0 : static_cast<size_t>(b_.line) * size_of(p_.code[st.reg].cls);
  const bool same = !x.uniform && stride == 1 && has_block_layout(type);
  std::byte* to = data(st.operand) + offset * memory;
  for (int64_t done = 0; done < n; done += b_.line, to += strides[before] * memory) {
    if (same) {
      std::memcpy(to, x.data, bytes);
    } else {
      block_ops().store(type, to, stride, x, b_.line);
    }
    x.data = static_cast<const std::byte*>(x.data) + bytes;
  }
}

}  // namespace ingot::kernels
