#include "backend/cuda/compile/walk.h"

#include <algorithm>

#include "backend/cuda/compile/tuning.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "base/error.h"

namespace ingot::backend::cuda {

namespace {

using Kind = Instruction::Kind;

bool is(const ir::Dim& d, int64_t v) { return d.is_constant() && d.value() == v; }
// True if `d` is known not to be a multiple of `by`.
bool splits(const ir::Dim& d, int64_t by) { return d.is_constant() && d.value() % by != 0; }

class Maker {
 public:
  Maker(const FusedBody& body, const std::vector<StridedLayout>& layouts) : b_(body), layouts_(layouts) {
    extents_ = body.outer;
    extents_.insert(extents_.end(), body.row.begin(), body.row.end());
  }

  Walk run() {
    if (layouts_.size() != b_.operands.size()) fail(Code::internal, "a fused body with {} operands gets {} layouts", b_.operands.size(), layouts_.size());
    w_.stage = stages(b_);
    for (const Instruction& i : b_.code) {
      if (i.kind == Kind::accumulator) fail(Code::internal, "a fused body reads an accumulator, but has no anchor");
      w_.rows = w_.rows || i.kind == Kind::reduce;
    }
    read_operands();
    make_groups();
    choose_inner();
    set_levels();
    find_vectors();
    find_columns();
    find_transposed();
    return std::move(w_);
  }

 private:
  size_t rank() const { return extents_.size(); }

  void read_operands() {
    std::vector<uint8_t> plain(b_.operands.size(), 0);
    w_.guarded.assign(b_.operands.size(), 0);
    for (const Instruction& i : b_.code) {
      if (i.kind == Kind::load) (i.lower.empty() ? plain : w_.guarded)[i.operand] = 1;
    }
    for (const Store& s : b_.stores) plain[s.operand] = 1;
    for (size_t k = 0; k < b_.operands.size(); ++k) {
      if (plain[k]) w_.guarded[k] = 0;
      const StridedLayout& l = layouts_[k];
      if (l.dims.size() < rank() || l.strides.size() != l.dims.size()) fail(Code::internal, "operand {} of a fused body has {} axes in a domain of {}", k, l.dims.size(), rank());
      ir::Dims strides(l.strides.begin(), l.strides.begin() + static_cast<std::ptrdiff_t>(rank()));
      for (size_t a = 0; a < rank(); ++a) {
        if (!w_.guarded[k] && is(l.dims[a], 1) && !is(extents_[a], 1)) strides[a] = 0;
      }
      w_.stride.push_back(std::move(strides));
    }
    for (const Instruction& i : b_.code) {
      std::vector<uint8_t> guards(rank(), 0);
      for (size_t a = 0; a < i.lower.size(); ++a) guards[a] = !(is(i.lower[a], 0) && (i.step.empty() || i.step[a] == 1) && layouts_[i.operand].dims[a] == extents_[a]);
      w_.guards.push_back(std::move(guards));
    }
  }

  // An axis that an instruction uses or guards is not merged.
  bool named(size_t axis) const {
    for (size_t k = 0; k < b_.code.size(); ++k) {
      if (b_.code[k].kind == Kind::index && b_.code[k].axis == axis) return true;
      if (w_.guards[k][axis]) return true;
    }
    return false;
  }

  bool merges(size_t before, size_t axis) const {
    bool row = axis >= b_.outer.size(), row_before = before >= b_.outer.size();
    if ((w_.rows && row != row_before) || named(before) || named(axis)) return false;
    for (const ir::Dims& s : w_.stride) {
      if (!(s[before] == s[axis] * extents_[axis])) return false;
    }
    return true;
  }

  void make_groups() {
    w_.group_of.assign(rank(), -1);
    for (size_t a = 0; a < rank(); ++a) {
      bool last = a + 1 == rank();
      bool needed = last && (w_.groups.empty() || (w_.rows && w_.groups.size() == w_.outer));  // a row has at least one group
      if (is(extents_[a], 1) && !named(a) && !needed) continue;
      auto axis = static_cast<uint8_t>(a);
      // Axes between them that are in no group have size 1, so they do not prevent the merge.
      if (!w_.groups.empty() && merges(w_.groups.back().last, a)) {
        w_.groups.back().last = axis;
        w_.groups.back().extent = w_.groups.back().extent * extents_[a];
      } else {
        w_.groups.push_back({axis, axis, extents_[a]});
      }
      if (w_.rows && a < b_.outer.size()) w_.outer = w_.groups.size();
      w_.group_of[a] = static_cast<int>(w_.groups.size() - 1);
    }
  }

  static bool is_short(const Walk::Group& g) { return g.extent.is_constant() && g.extent.value() < kernels::FusedCudaArgs::min_transposed_extent; }

  // Without rows, the result's contiguous group becomes the last one where tiles do not help: the last group is too short for them (the phases of a pixel shuffle),
  // or the body gathers and nothing is contiguous along it.
  void choose_inner() {
    if (w_.rows || w_.groups.size() < 2) return;
    auto is_contiguous = [&](size_t operand, const Walk::Group& g) { return is(w_.along(operand, g), 1); };
    const size_t result = b_.stores.front().operand;
    const bool gathers = std::any_of(b_.code.begin(), b_.code.end(), [](const Instruction& i) { return i.kind == Kind::load && !i.in.empty(); });
    const bool phases = is_short(w_.inner()) && !is_contiguous(result, w_.inner());
    if (!gathers && !phases) return;
    for (size_t k = 0; k < b_.operands.size() && !phases; ++k) {
      if (is_contiguous(k, w_.inner())) return;
    }
    auto found = std::find_if(w_.groups.begin(), w_.groups.end(), [&](const Walk::Group& g) { return is_contiguous(result, g) && (gathers || !is_short(g)); });
    if (found == w_.groups.end()) return;
    std::rotate(found, found + 1, w_.groups.end());
    for (size_t g = 0; g < w_.groups.size(); ++g) {
      for (size_t a = w_.groups[g].first; a <= w_.groups[g].last; ++a) {
        if (w_.group_of[a] >= 0) w_.group_of[a] = static_cast<int>(g);
      }
    }
  }

  void set_levels() {
    for (size_t k = 0; k < b_.code.size(); ++k) {
      const Instruction& i = b_.code[k];
      Level level = Level::row;
      for (Reg in : i.in) level = std::max(level, w_.level[in]);
      if (i.kind == Kind::reduce) level = Level::row;
      auto along = [&](size_t axis) {
        if (w_.group_of[axis] >= 0) level = std::max(level, w_.level_of_group(w_.group_of[axis]));
      };
      if (i.kind == Kind::index) along(i.axis);
      if (i.kind == Kind::load) {
        for (size_t g = 0; g < w_.groups.size(); ++g) {
          if (w_.varies(i.operand, w_.groups[g])) level = std::max(level, w_.level_of_group(static_cast<int>(g)));
        }
        for (size_t a = 0; a < rank(); ++a) {
          if (w_.guards[k][a]) along(a);
        }
      }
      w_.level.push_back(level);
    }
  }

  // True if the operand is contiguous along the last group.
  bool can_be_vector(size_t operand) const {
    if (!is(w_.along(operand, w_.inner()), 1)) return false;
    for (size_t k = 0; k < b_.code.size(); ++k) {
      const Instruction& i = b_.code[k];
      if (i.kind != Kind::load || i.operand != operand) continue;
      for (size_t a = w_.inner().first; a <= w_.inner().last; ++a) {
        if (w_.guards[k][a]) return false;
      }
      for (Reg in : i.in) {
        if (w_.level[in] == Level::element) return false;
      }
    }
    return true;
  }

  bool fits(size_t operand, int64_t unit) const {
    auto bytes = static_cast<int64_t>(ir::size_of(b_.operands[operand]));
    int64_t elements = std::min<int64_t>(16, bytes * unit) / bytes;
    if (splits(layouts_[operand].offset, elements)) return false;
    for (size_t a = 0; a < layouts_[operand].strides.size(); ++a) {
      bool inside = a >= w_.inner().first && a <= w_.inner().last;
      const ir::Dim& s = a < rank() ? w_.stride[operand][a] : layouts_[operand].strides[a];
      bool walked = a >= rank() || w_.group_of[a] >= 0 || w_.guarded[operand];
      if (walked && !inside && splits(s, elements)) return false;
    }
    return true;
  }

  // True if several loads have an index of their own for each element.
  bool gathers_elements() const {
    return std::count_if(b_.code.begin(), b_.code.end(), [&](const Instruction& i) {
             return i.kind == Kind::load && std::any_of(i.in.begin(), i.in.end(), [&](Reg r) { return w_.level[r] == Level::element; });
           }) >= compile_tuning::min_gathered_loads;
  }

  void find_vectors() {
    w_.vector.assign(b_.operands.size(), 0);
    if (gathers_elements()) return;
    size_t widest = 0;
    for (size_t k = 0; k < b_.operands.size(); ++k) {
      if (can_be_vector(k)) widest = std::max(widest, ir::size_of(b_.operands[k]));
    }
    if (widest == 0) return;
    int64_t unit = 16 / static_cast<int64_t>(widest);
    while (unit > 1 && splits(w_.inner().extent, unit)) unit /= 2;
    if (unit == 1) return;
    w_.unit = static_cast<int>(unit);
    for (size_t k = 0; k < b_.operands.size(); ++k) w_.vector[k] = can_be_vector(k) && fits(k, unit);
    if (std::find(w_.vector.begin(), w_.vector.end(), 1) == w_.vector.end()) w_.unit = 1;
  }

  void find_columns() {
    if (!w_.rows || w_.outer == 0) return;
    const Walk::Group& before = w_.groups[w_.outer - 1];
    size_t across = 0, other = 0;
    for (size_t k = 0; k < b_.code.size(); ++k) {
      if (b_.code[k].kind != Kind::load || w_.level[k] == Level::row) continue;
      size_t operand = b_.code[k].operand;
      bool along_before = is(w_.along(operand, before), 1);
      bool along_row = is(w_.along(operand, w_.inner()), 1);
      (along_before && !along_row ? across : other) += 1;
    }
    w_.columns = across > other;
  }

  // True if the operand can go through tiles of this group and the last one: it is contiguous along the group and strided along the last one, and an element's place
  // depends on its coordinates alone.
  bool can_be_transposed(size_t operand, const Walk::Group& g) const {
    if (!is(w_.along(operand, g), 1) || !w_.varies(operand, w_.inner()) || is(w_.along(operand, w_.inner()), 1)) return false;
    for (size_t k = 0; k < b_.code.size(); ++k) {
      const Instruction& i = b_.code[k];
      if (i.kind != Kind::load || i.operand != operand) continue;
      if (!i.in.empty() || std::find(w_.guards[k].begin(), w_.guards[k].end(), 1) != w_.guards[k].end()) return false;
    }
    return true;
  }

  void find_transposed() {
    w_.transposed.assign(b_.operands.size(), 0);
    if (w_.rows || w_.groups.size() < 2 || is_short(w_.inner())) return;
    size_t largest = 0;
    for (size_t g = 0; g + 1 < w_.groups.size(); ++g) {
      size_t bytes = 0;
      for (size_t k = 0; k < b_.operands.size() && !is_short(w_.groups[g]); ++k) bytes += can_be_transposed(k, w_.groups[g]) ? ir::size_of(b_.operands[k]) : 0;
      if (bytes <= largest || bytes > compile_tuning::max_transposed_bytes) continue;
      largest = bytes;
      w_.across = static_cast<int>(g);
    }
    for (size_t k = 0; k < b_.operands.size() && w_.across >= 0; ++k) w_.transposed[k] = can_be_transposed(k, w_.groups[static_cast<size_t>(w_.across)]);
  }

  const FusedBody& b_;
  const std::vector<StridedLayout>& layouts_;
  ir::Dims extents_;
  Walk w_;
};

}  // namespace

Walk make_walk(const FusedBody& body, const std::vector<StridedLayout>& layouts) { return Maker(body, layouts).run(); }

std::vector<uint8_t> needed(const FusedBody& b, const Walk& w, int stage) {
  std::vector<uint8_t> wanted(b.code.size(), 0);
  for (size_t k = 0; k < b.code.size(); ++k) wanted[k] = b.code[k].kind == Kind::reduce && w.stage[k] == stage;
  if (stage < 0) {
    for (const Store& s : b.stores) wanted[s.value] = 1;
  }
  for (size_t k = b.code.size(); k-- > 0;) {
    bool stop = b.code[k].kind == Kind::reduce ? w.stage[k] != stage : w.level[k] == Level::row;
    if (!wanted[k] || stop) continue;
    for (Reg in : b.code[k].in) wanted[in] = 1;
  }
  return wanted;
}

int last_stage(const FusedBody& b, const Walk& w) {
  int last = 0;
  for (size_t k = 0; k < b.code.size(); ++k) {
    if (b.code[k].kind == Kind::reduce) last = std::max<int>(last, w.stage[k]);
  }
  return last;
}

std::vector<size_t> kept_loads(const FusedBody& b, const Walk& w) {
  std::vector<uint8_t> first = needed(b, w, 0), later(b.code.size(), 0);
  for (int stage = 1; stage <= last_stage(b, w) + 1; ++stage) {
    std::vector<uint8_t> now = needed(b, w, stage > last_stage(b, w) ? -1 : stage);
    for (size_t k = 0; k < now.size(); ++k) later[k] |= now[k];
  }
  std::vector<size_t> kept;
  for (size_t k = 0; k < b.code.size(); ++k) {
    const Instruction& i = b.code[k];
    if (i.kind == Kind::load && i.in.empty() && w.level[k] == Level::element && first[k] && later[k]) kept.push_back(k);
  }
  std::stable_sort(kept.begin(), kept.end(), [&](size_t x, size_t y) { return ir::size_of(b.operands[b.code[x].operand]) > ir::size_of(b.operands[b.code[y].operand]); });
  return kept;
}

}  // namespace ingot::backend::cuda
