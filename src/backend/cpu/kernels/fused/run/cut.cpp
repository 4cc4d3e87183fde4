#include "backend/cpu/kernels/fused/run/cut.h"

#include <algorithm>
#include <map>

#include "backend/cpu/kernels/fused/run/part_program.h"
#include "backend/cpu/kernels/fused/run/stage.h"

#include "base/error.h"

namespace ingot::kernels {

using ir::DType;

std::vector<Axes> axes_of(const Bound& b, const Program& p) {
  std::vector<Axes> axes(p.code.size(), 0);
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    for (uint32_t in : i.in) axes[k] |= axes[in];
    if (i.kind == Kind::index) axes[k] = b.domain[i.axis] == 1 ? 0 : Axes{1} << i.axis;
    if (i.kind == Kind::reduce || i.kind == Kind::accumulator) axes[k] = all_axes;
    if (i.kind != Kind::load) continue;
    for (int a = 0; a < p.domain_rank; ++a) {
      const auto d = static_cast<size_t>(a);
      if (b.domain[d] != 1 && (b.strides[i.operand][d] != 0 || limits(b, k, i, a))) axes[k] |= Axes{1} << a;
    }
  }
  return axes;
}

int64_t elements_of(const Bound& b, Axes axes) {
  int64_t n = 1;
  for (size_t d = 0; d < b.domain.size(); ++d) {
    if ((axes >> d & 1) != 0) n *= b.domain[d];
  }
  return n;
}

namespace {

// Splits a `place` by the axes on which its indices depend, so that each index is computed only where it changes.
void split_places(Bound& b, Program& p) {
  const std::vector<Axes> axes = axes_of(b, p);
  std::vector<ProgramInstruction> code;
  std::vector<std::vector<int64_t>> lower, step;
  std::vector<std::vector<uint32_t>> now;  // one place may become several
  auto push = [&](ProgramInstruction i, uint32_t from) {
    code.push_back(std::move(i));
    lower.push_back(b.lower[from]);
    step.push_back(b.step[from]);
    return static_cast<uint32_t>(code.size() - 1);
  };
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    ProgramInstruction i = std::move(p.code[k]);
    now.emplace_back();
    if (i.kind == Kind::place) {
      std::map<Axes, ProgramInstruction> groups;
      for (size_t n = 0; n < i.in.size(); ++n) {
        const auto [found, made] = groups.try_emplace(axes[i.in[n]], i);
        ProgramInstruction& group = found->second;
        if (made) group.in.clear();
        if (made) group.axes.clear();
        group.in.push_back(now[i.in[n]][0]);
        group.axes.push_back(i.axes[n]);
      }
      for (auto& [of, group] : groups) now[k].push_back(push(std::move(group), k));
      continue;
    }
    std::vector<uint32_t> in;
    for (uint32_t old : i.in) in.insert(in.end(), now[old].begin(), now[old].end());
    i.in = std::move(in);
    now[k].push_back(push(std::move(i), k));
  }
  p.code = std::move(code);
  b.lower = std::move(lower);
  b.step = std::move(step);
  for (ProgramStore& s : p.stores) s.reg = now[s.reg][0];
}

// Adds the part of these axes: computes the values that others read, which are held from then on.
void add_part(Cut& cut, std::vector<HeldValue>& held, size_t& known_bytes, const Whole& whole, Axes axes) {
  std::vector<uint32_t> wanted, registers;
  for (uint32_t k = 0; k < whole.program.code.size(); ++k) {
    if (whole.parts.of[k] == axes && is_read_beyond(whole.program, whole.parts.of, k)) wanted.push_back(k);
  }
  if (wanted.empty()) return;
  PartProgram part(whole, held, axes);
  for (uint32_t k : wanted) registers.push_back(part.add(k));
  std::vector<int64_t> strides(whole.bound.domain.size(), 0);
  int64_t elements = 1;
  for (size_t n = part.axes().size(); n-- > 0; elements *= whole.bound.domain[part.axes()[n]]) strides[part.axes()[n]] = elements;
  std::vector<ProgramStore> stores;
  for (size_t n = 0; n < wanted.size(); ++n) {
    const DType dtype = dtype_of(whole.program.code[wanted[n]].cls);
    stores.push_back({static_cast<uint16_t>(whole.bound.strides.size() + held.size()), registers[n]});
    held.push_back({wanted[n], dtype, strides, part.is_known()});
    size_t& end = part.is_known() ? known_bytes : cut.bytes;
    cut.held.push_back({end, part.is_known()});
    end += (static_cast<size_t>(elements) * ir::size_of(dtype) + 63) / 64 * 64;
  }
  Bound bound = part.finish(std::move(stores));
  cut.parts.push_back({std::move(bound), part.is_known()});
}

// Adds the part that computes the step's results.
void add_last_part(Cut& cut, const std::vector<HeldValue>& held, const Whole& whole) {
  const Program& p = whole.program;
  PartProgram part(whole, held, in_no_part);
  part.bound.across = whole.bound.across;
  part.bound.places = whole.bound.places;
  part.bound.once = whole.bound.once;
  part.bound.in_order = whole.bound.in_order;
  part.bound.transposed = whole.bound.transposed;
  part.bound.transposed_loads = whole.bound.transposed_loads;
  part.bound.transposed_places = whole.bound.transposed_places;
  part.program->row_rank = p.row_rank;
  part.program->in_order = p.in_order;
  part.program->has_reductions = p.has_reductions;
  std::vector<uint8_t> needed(p.code.size(), 0);
  for (const ProgramStore& s : p.stores) needed[s.reg] = 1;
  for (uint32_t k = static_cast<uint32_t>(p.code.size()); k-- > 0;) {
    if (needed[k] == 0 || whole.parts.of[k] != in_no_part) continue;
    for (uint32_t in : p.code[k].in) needed[in] = 1;
  }
  // In code order: a reduction must not come before an unrelated one with which it shares a block.
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    if (needed[k] != 0) part.add(k);
  }
  std::vector<ProgramStore> stores = p.stores;
  for (ProgramStore& s : stores) s.reg = part.add(s.reg);
  cut.parts.push_back({part.finish(std::move(stores)), false});
}

}  // namespace

Cut cut_program(const Program& given, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain) {
  Bound b = check_operands(given, operands, sizes, std::move(domain));
  Program p = given;
  merge_axes(b, p);
  choose_axis(b, p);
  split_places(b, p);
  const std::vector<Axes> axes = axes_of(b, p);  // a transposed operand's strides no longer tell on which outer axes its elements depend
  transpose_looked_up(b, p, axes);
  Parts parts = choose_parts(b, p, axes);
  const Whole whole{std::move(b), std::move(p), std::move(parts)};
  Cut cut;
  std::vector<HeldValue> held;
  size_t known_bytes = 0;
  for (const Axes part : whole.parts.sets) add_part(cut, held, known_bytes, whole, part);
  add_last_part(cut, held, whole);
  cut.numbers.resize(known_bytes);
  return cut;
}

}  // namespace ingot::kernels
