#include "backend/cpu/kernels/fused/run/part_program.h"

#include <algorithm>

#include "backend/cpu/kernels/fused/run/stage.h"

namespace ingot::kernels {

namespace {

template <class T>
std::vector<T> only(const std::vector<T>& all, const std::vector<size_t>& axes) {
  std::vector<T> out;
  for (size_t a : axes) {
    if (!all.empty()) out.push_back(all[a]);
  }
  return out;
}

// The same along the part's axes, then along the gathered ones.
std::vector<int64_t> along(const std::vector<int64_t>& all, const std::vector<size_t>& axes, size_t rank) {
  std::vector<int64_t> out = only(all, axes);
  out.insert(out.end(), all.begin() + static_cast<ptrdiff_t>(rank), all.end());
  return out;
}

}  // namespace

PartProgram::PartProgram(const Whole& whole, const std::vector<HeldValue>& held, Axes part) : whole_(whole), held_(held), part_(part) {
  for (size_t a = 0; a < whole.bound.domain.size(); ++a) {
    if ((part >> a & 1) != 0) axes_.push_back(a);
  }
  program->operands = whole.program.operands;
  program->memory = whole.program.memory;
  program->gathered = whole.program.gathered;
  program->sizes = whole.program.sizes;
  program->domain_rank = static_cast<int>(axes_.size());
  program->row_rank = 1;
  bound.domain = only(whole.bound.domain, axes_);
  bound.sizes = whole.bound.sizes;
  declare_held();
}

void PartProgram::declare_held() {
  const size_t own = whole_.bound.strides.size();
  bound.strides.resize(own + held_.size());
  bound.dims.resize(own + held_.size());
  for (size_t n = program->memory.size() - own; n < held_.size(); ++n) {
    program->memory.push_back(held_[n].dtype);
    program->gathered.push_back(0);
  }
}

// Sets the operand's extents and strides along the part's axes.
void PartProgram::place_operand(uint32_t operand) {
  if (!bound.strides[operand].empty()) return;
  const size_t own = whole_.bound.strides.size(), rank = whole_.bound.domain.size();
  if (operand < own) {
    bound.strides[operand] = along(whole_.bound.strides[operand], axes_, rank);
    bound.dims[operand] = along(whole_.bound.dims[operand], axes_, rank);
    return;
  }
  for (size_t a : axes_) {
    const int64_t stride = held_[operand - own].strides[a];
    bound.strides[operand].push_back(stride);
    bound.dims[operand].push_back(stride == 0 ? 1 : whole_.bound.domain[a]);
  }
}

uint32_t PartProgram::push(ProgramInstruction i, std::vector<int64_t> lower, std::vector<int64_t> step) {
  program->code.push_back(std::move(i));
  bound.lower.push_back(std::move(lower));
  bound.step.push_back(std::move(step));
  return static_cast<uint32_t>(program->code.size() - 1);
}

// `i`: instruction k with its registers here.
uint32_t PartProgram::add_copy(uint32_t k, ProgramInstruction i) {
  if (i.kind == Kind::load || i.kind == Kind::place) place_operand(i.operand);
  if (i.kind == Kind::load) known_ = false;
  if (i.kind == Kind::index) {
    const auto found = std::find(axes_.begin(), axes_.end(), static_cast<size_t>(i.axis));
    if (found == axes_.end()) {  // an axis of size 1
      i.kind = Kind::literal;
      i.i = 0;
    } else {
      i.axis = static_cast<uint8_t>(found - axes_.begin());
    }
  }
  if (!i.lower.empty()) i.lower.assign(axes_.size(), 0);  // from here on `lower` only marks a guarded load
  return push(std::move(i), only(whole_.bound.lower[k], axes_), only(whole_.bound.step[k], axes_));
}

// The held value of instruction k, `i`.
uint32_t PartProgram::add_load(uint32_t k, ProgramInstruction i) {
  const auto held = std::find_if(held_.begin(), held_.end(), [&](const HeldValue& h) { return h.instruction == k; });
  i.kind = Kind::load;
  i.operand = static_cast<uint16_t>(whole_.bound.strides.size() + static_cast<size_t>(held - held_.begin()));
  i.dtype = held->dtype;
  for (auto* list : {&i.lower, &i.step}) list->clear();
  i.in.clear();
  i.axes.clear();
  known_ = known_ && held->known;
  place_operand(i.operand);
  return push(std::move(i), {}, {});
}

// In code order, without recursion.
uint32_t PartProgram::add(uint32_t wanted) {
  std::vector<uint32_t> todo{wanted};
  while (!todo.empty()) {
    const uint32_t k = todo.back();
    if (added_.contains(k)) {
      todo.pop_back();
      continue;
    }
    ProgramInstruction i = whole_.program.code[k];
    if (const Axes part = whole_.parts.of[k]; part != in_no_part && part != part_) {
      todo.pop_back();
      added_[k] = add_load(k, std::move(i));
      continue;
    }
    const size_t before = todo.size();
    std::copy_if(i.in.begin(), i.in.end(), std::back_inserter(todo), [&](uint32_t in) { return !added_.contains(in); });
    if (todo.size() > before) continue;
    todo.pop_back();
    for (uint32_t& in : i.in) in = added_.at(in);
    added_[k] = add_copy(k, std::move(i));
  }
  return added_.at(wanted);
}

Bound PartProgram::finish(std::vector<ProgramStore> stores) {
  declare_held();
  for (const ProgramStore& s : stores) place_operand(s.operand);
  program->stores = std::move(stores);
  if (bound.across == 0) merge_axes(bound, *program);
  stage_operands(bound, *program);
  transpose_rows(bound, *program);
  join_lines(bound, *program);
  for (ProgramInstruction& i : program->code) {
    for (uint32_t in : i.in) i.stage = std::max(i.stage, program->code[in].stage + (program->code[in].kind == Kind::reduce));
    program->stages = std::max(program->stages, i.stage + 1);
  }
  finish_binding(bound, std::move(program));
  return std::move(bound);
}

}  // namespace ingot::kernels
