// Binds a program to one set of sizes: merges axes, chooses what is computed in one pass, and assigns blocks.
#include <algorithm>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/tuning.h"
#include "base/error.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::kernels {

using ir::DType;

namespace {

// Assigns block memory. A block is reused after its last reader.
void assign_slots(const Bound& b, Program& p) {
  auto count = static_cast<uint32_t>(p.code.size());
  std::vector<uint32_t> last(count, 0);
  auto reads = [&](uint32_t k, uint32_t in) {
    // Values used in a later stage live to the end.
    last[in] = p.code[in].stage != p.code[k].stage ? count : std::max(last[in], k);
  };
  for (uint32_t k = 0; k < count; ++k) {
    if (b.together[k].kind == Together::absorbed) continue;
    if (b.together[k].kind == Together::alone) {
      for (uint32_t in : p.code[k].in) reads(k, in);
    } else {
      for (uint32_t in : b.together[k].in) {
        if (in != Together::none) reads(k, in);
      }
    }
  }
  for (const ProgramStore& s : p.stores) last[s.reg] = count;
  std::vector<int> free;
  std::vector<std::vector<int>> released(count + 1);
  p.slots = 0;
  for (uint32_t k = 0; b.across != 0 && k < count; ++k) {
    if (p.code[k].kind != Kind::reduce) continue;
    p.code[k].slot = p.slots++;
    p.code[k].so_far = p.slots++;
  }
  for (uint32_t k = 0; k < count; ++k) {
    // An instruction must not write to its own operands' blocks: its loops assume no overlap.
    if (k > 0) free.insert(free.end(), released[k - 1].begin(), released[k - 1].end());
    ProgramInstruction& i = p.code[k];
    if (b.rows_together != 0 && b.together[k].kind == Together::exp_sum && i.kind == Kind::reduce) {  // written early, by its exponential
      i.slot = p.slots++;
      continue;
    }
    const bool each = b.rows_together != 0 && b.differs[k] != 0;  // one value for each row
    bool number = !each && (i.kind == Kind::literal || i.kind == Kind::size || i.kind == Kind::reduce || i.kind == Kind::accumulator);
    if (number || (b.uniform[k] && !each) || b.together[k].kind == Together::absorbed) continue;
    if (b.repeats[k] != 0) {
      i.slot = p.slots++;
      continue;
    }
    if (free.empty()) {
      i.slot = p.slots++;
    } else {
      i.slot = free.back();
      free.pop_back();
    }
    released[std::max(last[k], k)].push_back(i.slot);
  }
}

// Lists what each pass over a row computes: a value of an earlier stage only if this one needs it again.
void list_passes(Bound& b, const Program& p) {
  for (int stage = 0; stage < p.stages; ++stage) {
    std::vector<uint8_t> needed(p.code.size(), 0);
    for (const ProgramStore& s : p.stores) needed[s.reg] |= stage + 1 == p.stages;
    for (uint32_t k : b.reductions) needed[k] |= p.code[k].stage == stage;
    for (uint32_t k = static_cast<uint32_t>(p.code.size()); k-- > 0;) {
      if (needed[k] == 0 || (p.code[k].kind == Kind::reduce && p.code[k].stage != stage)) continue;
      const Together& together = b.together[k];
      if (together.kind == Together::alone) {
        for (uint32_t in : p.code[k].in) needed[in] = 1;
      } else {
        for (uint32_t in : together.in) {
          if (in != Together::none) needed[in] = 1;
        }
      }
    }
    std::vector<uint32_t>& pass = b.passes.emplace_back();
    std::copy_if(b.active.begin(), b.active.end(), std::back_inserter(pass), [&](uint32_t k) { return needed[k] != 0; });
  }
}

// Splits the work into what is done per block and what is done once.
void list_work(Bound& b, const Program& p) {
  b.straight.assign(p.code.size(), 0);
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.kind == Kind::literal || i.kind == Kind::size || b.together[k].kind == Together::absorbed) continue;
    b.active.push_back(k);
    if (i.kind == Kind::reduce) b.reductions.push_back(k);
    bool fixed = false;
    if (i.kind == Kind::load) {
      DType t = p.memory[i.operand];
      bool same = has_block_layout(t) || b.in_memory[k] != 0 || (t == DType::b8 && i.operand >= p.operands);  // computed bools are 0 or 1
      const bool solid = is_solid(b, p, i.operand), one_row = p.row_rank == 1 || b.line != 0;
      const bool along_indices = std::all_of(i.in.begin(), i.in.end(), [&](uint32_t in) { return b.uniform[in] != 0; });
      const bool always_inside = i.lower.empty() && along_indices;
      if (one_row && same && always_inside && (b.uniform[k] || solid)) b.straight[k] = i.in.empty() ? Bound::always : Bound::looked_up;
      if (p.row_rank == 1 && same && !i.lower.empty() && solid && b.step[k].back() == 1) b.straight[k] = Bound::inside;
      fixed = b.straight[k] == Bound::always;
      for (int a = 0; a < p.domain_rank - p.row_rank; ++a) fixed = fixed && b.strides[i.operand][static_cast<size_t>(a)] == 0;
    }
    if (!fixed) b.each_row.push_back(k);
  }
  if (p.has_reductions) list_passes(b, p);
}

// True if the body only copies: one load of whole blocks, stored unchanged.
bool only_copies(const Bound& b, const Program& p) {
  if (p.has_reductions || p.stores.size() != 1 || p.row_rank != 1 || b.strides.size() <= p.stores[0].operand) return false;
  const ProgramStore& st = p.stores[0];
  const ProgramInstruction& i = p.code[st.reg];
  if (i.kind != Kind::load || !i.lower.empty() || b.uniform[st.reg] || p.memory[i.operand] != p.memory[st.operand]) return false;
  if (p.memory[i.operand] == DType::b8 && st.operand >= p.operands) return false;  // a bool may be any byte in memory, but held ones are 0 or 1
  const auto last = static_cast<size_t>(p.domain_rank) - 1;
  const bool along_places = std::all_of(i.in.begin(), i.in.end(), [&](uint32_t in) { return b.uniform[in] != 0; });
  return along_places && b.strides[i.operand][last] == 1 && b.strides[st.operand][last] == 1 && b.dims[st.operand][last] == b.domain[last];
}

bool names_axis(const Bound& b, const Program& p, int axis) {
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.kind == Kind::index && i.axis == axis) return true;
    if (limits(b, k, i, axis)) return true;
  }
  return false;
}

// Values that take a block: what is in memory takes none.
int64_t values_in_blocks(const Bound& b, const Program& p) {
  return std::count_if(b.active.begin(), b.active.end(), [&](uint32_t k) {
    const bool loaded = b.straight[k] == Bound::never || b.straight[k] == Bound::inside;
    return p.code[k].slot >= 0 && b.uniform[k] == 0 && loaded && b.in_place[k] == 0;
  });
}

// More if few blocks share the first-level cache, and of narrow integers and of bools alone, for which an instruction is short.
int64_t elements_of_block(const Bound& b, const Program& p) {
  using namespace fused_tuning;
  if (p.has_accumulator) return block_elements;
  size_t least = 8;
  for (uint32_t k : b.active) {
    if (is_integer(p.code[k].cls) && b.uniform[k] == 0) least = std::min(least, size_of(p.code[k].cls));
  }
  if (std::all_of(b.active.begin(), b.active.end(), [&](uint32_t k) { return b.uniform[k] != 0 || p.code[k].cls == Class::b8; })) least = 1;
  const int64_t values = values_in_blocks(b, p);
  if (values == 0) return bytes_in_memory / static_cast<int64_t>(least == 8 ? sizeof(float) : least);
  return std::max((values <= 1 ? blocks_of_one_value : values <= max_few_values ? blocks_of_few_values : 1) * block_elements, block_bytes / static_cast<int64_t>(least));
}

// Maps that are only stored, contiguously and in their own type, write to memory directly.
void find_in_place(Bound& b, const Program& p) {
  b.in_place.assign(p.code.size(), 0);
  for (size_t s = 0; s < p.stores.size(); ++s) {
    const ProgramStore& st = p.stores[s];
    if (b.strides.size() <= st.operand) continue;
    const ProgramInstruction& i = p.code[st.reg];
    DType m = p.memory[st.operand];
    const bool stays_half = b.together[st.reg].kind == Together::one_pass && b.together[st.reg].memory == m;
    bool same = has_block_layout(m) || m == DType::b8 || stays_half;
    int uses = 0;
    for (const ProgramInstruction& other : p.code) uses += static_cast<int>(std::count(other.in.begin(), other.in.end(), st.reg));
    for (const ProgramStore& other : p.stores) uses += other.reg == st.reg;
    const bool contiguous = (p.row_rank == 1 || b.line != 0) && is_solid(b, p, st.operand);
    // Only the last instruction: nothing is read afterwards from memory that the store may share.
    bool last = st.reg + 1 == p.code.size();
    const bool writes = i.kind == Kind::map || (i.kind == Kind::load && b.straight[st.reg] == Bound::never && b.repeats[st.reg] == 0);
    const bool one_reader = last && uses == 1;
    if (writes && same && one_reader && contiguous && !b.uniform[st.reg]) b.in_place[st.reg] = static_cast<uint8_t>(s + 1);
  }
}

}  // namespace

bool limits(const Bound& b, size_t k, const ProgramInstruction& i, int axis) {
  if (i.lower.empty()) return false;
  const auto a = static_cast<size_t>(axis);
  return b.lower[k][a] != 0 || b.step[k][a] != 1 || b.dims[i.operand][a] < b.domain[a];
}

// Merges neighbouring axes, within the row and within the outer axes, if every operand can walk them as one.
void merge_axes(Bound& b, Program& p) {
  std::vector<uint8_t> guarded(b.strides.size(), 0);
  for (const ProgramInstruction& i : p.code) {
    if (i.kind == Kind::load && !i.lower.empty()) guarded[i.operand] = 1;
  }
  for (int a = p.domain_rank - 1; a > 0; --a) {
    bool row = a >= p.domain_rank - p.row_rank, previous_row = a - 1 >= p.domain_rank - p.row_rank;
    // Without reductions, outer and row axes are the same.
    if (row != previous_row && p.has_reductions) continue;
    if (names_axis(b, p, a) || names_axis(b, p, a - 1)) continue;
    auto i = static_cast<size_t>(a);
    bool fits = true;
    for (size_t k = 0; k < b.strides.size() && fits; ++k) {
      if (b.strides[k].empty()) continue;
      bool uniform_here = b.strides[k][i] == 0, uniform_before = b.strides[k][i - 1] == 0;
      bool whole = b.domain[i] == 1 || b.domain[i - 1] == 1;
      fits = whole || (uniform_here && uniform_before) || (b.strides[k][i - 1] == b.strides[k][i] * b.domain[i]);
      if (whole && !(uniform_here && uniform_before)) fits = fits && p.gathered[k] == 0;
    }
    if (!fits) continue;
    for (size_t k = 0; k < b.strides.size(); ++k) {
      if (b.strides[k].empty()) continue;
      int64_t stride = b.domain[i] == 1 ? b.strides[k][i - 1] : b.strides[k][i];
      b.strides[k][i - 1] = stride;
      b.strides[k].erase(b.strides[k].begin() + a);
      b.dims[k][i - 1] = stride == 0 && !guarded[k] ? 1 : b.domain[i - 1] * b.domain[i];
      b.dims[k].erase(b.dims[k].begin() + a);
    }
    for (size_t k = 0; k < p.code.size(); ++k) {
      if (p.code[k].lower.empty()) continue;
      b.lower[k].erase(b.lower[k].begin() + a);
      b.step[k].erase(b.step[k].begin() + a);
    }
    b.domain[i - 1] *= b.domain[i];
    b.domain.erase(b.domain.begin() + a);
    for (ProgramInstruction& x : p.code) {
      if (x.kind == Kind::index && x.axis > a - 1) --x.axis;
    }
    --p.domain_rank;
    if (row && previous_row) --p.row_rank;
    if (row && !previous_row) p.row_rank = std::max(1, p.row_rank);
  }
}

Bound check_operands(const Program& given, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain) {
  Bound b;
  if (domain.size() != static_cast<size_t>(given.domain_rank)) fail(Code::format, "fused step has a domain of rank {}, its code {}", domain.size(), given.domain_rank);
  b.domain = std::move(domain);
  int64_t elements = 1;
  for (int64_t n : b.domain) {
    if (n < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > max_domain_elements)
      fail(Code::format, "a fused step has an impossible domain");
  }
  b.sizes.assign(sizes.begin(), sizes.end());
  for (size_t k = 0; k < operands.size(); ++k) {
    const TensorRef& t = operands[k];
    if (t.dtype != given.memory[k]) fail(Code::format, "operand {} of a fused step is {}, but its code has {}", k, ir::name_of(t.dtype), ir::name_of(given.memory[k]));
    if (t.rank != given.domain_rank + given.gathered[k]) fail(Code::format, "operand {} of a fused step has rank {}", k, t.rank);
    b.dims.emplace_back(t.dims, t.dims + t.rank);
    b.strides.emplace_back(t.strides, t.strides + t.rank);
  }
  // Extents: the whole domain, or 1 along an axis. Guarded loads may have any size: they are checked per element.
  std::vector<uint8_t> guarded(operands.size(), 0);
  for (const ProgramInstruction& i : given.code) {
    if (i.kind == Kind::load) guarded[i.operand] |= i.lower.empty() ? 1 : 2;
    std::vector<int64_t> lower, step(i.lower.size(), 1);
    for (uint32_t s : i.lower) lower.push_back(b.sizes[s]);
    for (size_t d = 0; d < i.step.size(); ++d) step[d] = b.sizes[i.step[d]];
    for (int64_t s : step) {
      if (s < 1 || s > max_guard_step) fail(Code::format, "a fused step goes {} elements at a time", s);
    }
    b.lower.push_back(std::move(lower));
    b.step.push_back(std::move(step));
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    bool written = k + given.stores.size() >= static_cast<size_t>(given.operands);
    for (int a = 0; a < given.domain_rank; ++a) {
      auto d = static_cast<size_t>(a);
      if (guarded[k] == 2) continue;
      bool all = b.dims[k][d] == b.domain[d], one = b.dims[k][d] == 1;
      if (!all && !one) fail(Code::format, "operand {} of a fused step has size {} on axis {} of size {}", k, b.dims[k][d], a, b.domain[d]);
      if (!all) b.strides[k][d] = 0;
      bool row = a >= given.domain_rank - given.row_rank;
      if (written && !all && !row) fail(Code::format, "a fused step writes one element several times");
    }
  }
  // Stores along the row: all of it, or one element.
  for (const ProgramStore& s : given.stores) {
    if (s.operand >= operands.size()) continue;
    bool once = true, all = true;
    for (int a = given.domain_rank - given.row_rank; a < given.domain_rank; ++a) {
      auto d = static_cast<size_t>(a);
      once = once && b.dims[s.operand][d] == 1;
      all = all && b.dims[s.operand][d] == b.domain[d];
    }
    if (!once && !all) fail(Code::format, "a fused step writes a part of its rows");
  }
  return b;
}

Bound bind_program(std::shared_ptr<const Program> program, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain, bool may_merge) {
  Bound b = check_operands(*program, operands, sizes, std::move(domain));
  auto own = std::make_shared<Program>(*program);
  if (may_merge) merge_axes(b, *own);
  finish_binding(b, std::move(own));
  return b;
}

bool may_join_lines(const Bound& b, const Program& p) {
  if (!b.is_elementwise(p) || p.domain_rank < 2 || p.code.size() < 2) return false;
  const int64_t line = b.domain.back(), lines = b.domain[b.domain.size() - 2];
  if (line < 2 || line > fused_tuning::longest_solid_line || lines < 2) return false;
  auto fits = [&](size_t operand) {
    const int64_t* strides = b.strides[operand].data() + p.domain_rank - 2;
    return line <= fused_tuning::longest_line || strides[0] == 0 || (strides[0] == line && strides[1] == 1);
  };
  for (const ProgramInstruction& i : p.code) {
    if (i.kind == Kind::place || (i.kind == Kind::index && i.axis >= p.domain_rank - 2)) return false;
    if (i.kind == Kind::load && (!i.in.empty() || !i.lower.empty() || !fits(i.operand))) return false;
  }
  return std::all_of(p.stores.begin(), p.stores.end(), [&](const ProgramStore& s) {
    if (s.operand >= b.dims.size()) return false;
    const std::vector<int64_t>& dims = b.dims[s.operand];
    return dims.back() == line && dims[dims.size() - 2] == lines && fits(s.operand);
  });
}

void join_lines(Bound& b, Program& p) {
  if (!may_join_lines(b, p)) return;
  b.line = b.domain.back();
  p.row_rank = 2;
}

bool is_whole(const Bound& b, const Program& p, uint32_t k) {
  const ProgramInstruction& i = p.code[k];
  return i.kind == Kind::load && i.lower.empty() && i.in.empty() && b.uniform[k] == 0 && (p.row_rank == 1 || b.line != 0) && is_solid(b, p, i.operand);
}

void finish_binding(Bound& b, std::shared_ptr<Program> own) {
  const Program& p = *own;
  // Is the value the same along the row?
  b.uniform.assign(p.code.size(), 1);
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    bool uniform = true;
    for (uint32_t in : i.in) uniform = uniform && b.uniform[in];
    if (i.kind == Kind::reduce) uniform = b.across == 0;
    if (i.kind == Kind::accumulator) uniform = false;
    if (i.kind == Kind::index) uniform = i.axis < p.domain_rank - p.row_rank;
    if (i.kind == Kind::load) {
      for (int a = p.domain_rank - p.row_rank; a < p.domain_rank; ++a) {
        auto d = static_cast<size_t>(a);
        uniform = uniform && (b.strides[i.operand][d] == 0 || b.domain[d] == 1) && i.lower.empty();
      }
    }
    b.uniform[k] = uniform;
  }
  b.repeats.assign(p.code.size(), 0);
  for (size_t k = 0; b.line != 0 && k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.kind == Kind::load && b.uniform[k] == 0) b.repeats[k] = b.strides[i.operand][static_cast<size_t>(p.domain_rank) - 2] == 0;
  }
  find_together(b, p);
  join_rows(b, p);
  assign_slots(b, *own);
  list_work(b, p);
  find_in_place(b, p);
  int64_t row = 1;
  for (int a = p.domain_rank - p.row_rank; a < p.domain_rank; ++a) row *= b.domain[static_cast<size_t>(a)];
  // Whole rows if the blocks fit the second-level cache; else blocks of 512, reloaded for each stage, or of some lines.
  // A row that is only reduced, from little memory, starts fewer of the longer ones.
  const bool only_reduced = p.has_reductions && b.across == 0 && p.stages <= 2 && p.slots <= 3;
  int64_t block = std::min<int64_t>(row, b.line != 0 || only_reduced ? fused_tuning::elements_of_lines : elements_of_block(b, p));
  if (p.has_reductions && b.across == 0 && row * std::max(p.slots, 1) * 8 <= fused_tuning::bytes_of_whole_row) block = row;
  if (b.rows_together != 0) block = b.rows_together * row;
  b.block = static_cast<size_t>((std::max<int64_t>(block, 1) + 63) / 64 * 64);
  b.scratch = (p.code.size() * Evaluator::state_bytes + 127) / 64 * 64 + static_cast<size_t>(p.slots) * b.block * 8 + 64;
  b.copies = only_copies(b, p);
  b.program = std::move(own);
}

}  // namespace ingot::kernels
