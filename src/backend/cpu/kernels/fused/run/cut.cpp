#include "backend/cpu/kernels/fused/run/cut.h"

#include "backend/cpu/kernels/fused/run/stage.h"

#include <algorithm>
#include <bit>
#include <map>

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

constexpr Axes never = all_axes;  // no part

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

class Cutter {
 public:
  // axes: of each instruction.
  Cutter(Bound whole, Program code, std::vector<Axes> axes) : b_(std::move(whole)), p_(std::move(code)), own_(b_.strides.size()), axes_(std::move(axes)) {
    for (int64_t n : b_.domain) total_ *= n;
  }

  Cut run() {
    find_reads();
    choose_parts();
    for (const Axes axes : sets_) {
      std::vector<uint32_t> wanted;
      for (uint32_t k = 0; k < p_.code.size(); ++k) {
        if (part_[k] == axes && read_elsewhere(k)) wanted.push_back(k);
      }
      if (!wanted.empty()) add_part(axes, wanted);
    }
    add_main();
    out_.numbers.resize(known_bytes_);
    return std::move(out_);
  }

 private:
  void find_reads() {
    reads_.assign(p_.code.size(), 0);
    for (uint32_t k = 0; k < p_.code.size(); ++k) {
      for (uint32_t in : p_.code[k].in) reads_[k] |= reads_[in];
      if (p_.code[k].kind == Kind::load) reads_[k] = 1;
    }
  }

  // True if the load must copy: its elements are strided along the blocks' axis, or of another type than blocks.
  bool copies(const ProgramInstruction& i) const {
    if (i.kind != Kind::load) return false;
    const int64_t stride = b_.strides[i.operand][b_.domain.size() - 1];
    return !i.in.empty() || (stride != 0 && (stride != 1 || p_.memory[i.operand] != dtype_of(i.cls)));
  }

  // Chooses the values worth holding: computed often, and not too large or too many.
  void choose_parts() {
    part_.assign(p_.code.size(), never);
    if (total_ < 512) return;
    struct Set {
      int64_t work = 0, kept = 0;
      bool reads = false;
    };
    std::map<Axes, Set> sets;
    for (uint32_t k = 0; k < p_.code.size(); ++k) {
      const ProgramInstruction& i = p_.code[k];
      const bool computes = i.kind == Kind::map || i.kind == Kind::index || i.kind == Kind::place || copies(i);
      if (!computes || axes_[k] == never || axes_[k] == 0) continue;
      Set& set = sets[axes_[k]];
      set.work += i.kind == Kind::map && ir::cost_of(i.op) == ir::Cost::function ? 8 : 1;
      set.reads = set.reads || reads_[k] != 0;
      part_[k] = axes_[k];
      set.kept += used_beyond(k);
    }
    constexpr int64_t most_known = 1 << 15, most_bytes = 8 << 20;
    int64_t bytes = 0;
    for (const auto& [axes, set] : sets) {
      const int64_t n = elements_of(b_, axes), again = total_ / n - 1;
      const int64_t needed = n * set.kept * 8;
      if (again < 1 || set.kept == 0 || set.work * again < (set.reads ? 4 : 2) * set.kept || bytes + needed > most_bytes) continue;
      if (!set.reads && n > most_known) continue;
      if (set.reads && set.work * again * n < 2000) continue;  // about the time to start the part's own loop
      bytes += needed;
      sets_.push_back(axes);
    }
    std::stable_sort(sets_.begin(), sets_.end(), [](Axes a, Axes b) { return std::popcount(a) < std::popcount(b); });
    for (uint32_t k = 0; k < p_.code.size(); ++k) {
      if (std::find(sets_.begin(), sets_.end(), part_[k]) == sets_.end()) part_[k] = never;
    }
  }

  bool used_beyond(uint32_t k) const {
    for (const ProgramStore& s : p_.stores) {
      if (s.reg == k) return true;
    }
    for (uint32_t u = k + 1; u < p_.code.size(); ++u) {
      if (axes_[u] != axes_[k] && std::find(p_.code[u].in.begin(), p_.code[u].in.end(), k) != p_.code[u].in.end()) return true;
    }
    return false;
  }

  bool read_elsewhere(uint32_t k) const {
    for (const ProgramStore& s : p_.stores) {
      if (s.reg == k) return true;
    }
    for (uint32_t u = k + 1; u < p_.code.size(); ++u) {
      if (part_[u] != part_[k] && std::find(p_.code[u].in.begin(), p_.code[u].in.end(), k) != p_.code[u].in.end()) return true;
    }
    return false;
  }

  // A program over some of the axes, under construction.
  struct Draft {
    Bound b;
    std::shared_ptr<Program> p = std::make_shared<Program>();
    Axes part = never;
    std::vector<size_t> axes;      // in the whole domain
    std::map<uint32_t, uint32_t> made;
    bool known = true;
  };

  Draft draft(Axes part, std::vector<size_t> axes) const {
    Draft d;
    d.part = part;
    d.axes = std::move(axes);
    d.p->operands = p_.operands;
    d.p->memory = p_.memory;
    d.p->gathered = p_.gathered;
    d.p->sizes = p_.sizes;
    d.p->domain_rank = static_cast<int>(d.axes.size());
    d.p->row_rank = 1;
    for (size_t a : d.axes) d.b.domain.push_back(b_.domain[a]);
    d.b.sizes = b_.sizes;
    d.b.strides.resize(own_ + held_.size());
    d.b.dims.resize(own_ + held_.size());
    for (const HeldLayout& held : held_) {
      d.p->memory.push_back(held.dtype);
      d.p->gathered.push_back(0);
    }
    return d;
  }

  template <class T>
  static std::vector<T> only(const std::vector<T>& all, const std::vector<size_t>& axes) {
    std::vector<T> out;
    for (size_t a : axes) {
      if (!all.empty()) out.push_back(all[a]);
    }
    return out;
  }

  // Sets the operand's extents and strides along the draft's axes.
  void place_operand(Draft& d, uint32_t operand) const {
    if (!d.b.strides[operand].empty()) return;
    if (operand >= own_) {
      const HeldLayout& held = held_[operand - own_];
      for (size_t a : d.axes) {
        d.b.strides[operand].push_back(held.strides[a]);
        d.b.dims[operand].push_back(held.strides[a] == 0 ? 1 : b_.domain[a]);
      }
      return;
    }
    d.b.strides[operand] = only(b_.strides[operand], d.axes);
    d.b.dims[operand] = only(b_.dims[operand], d.axes);
    const auto rank = static_cast<ptrdiff_t>(b_.domain.size());
    d.b.strides[operand].insert(d.b.strides[operand].end(), b_.strides[operand].begin() + rank, b_.strides[operand].end());
    d.b.dims[operand].insert(d.b.dims[operand].end(), b_.dims[operand].begin() + rank, b_.dims[operand].end());
  }

  uint32_t push(Draft& d, ProgramInstruction i, std::vector<int64_t> lower, std::vector<int64_t> step) const {
    d.p->code.push_back(std::move(i));
    d.b.lower.push_back(std::move(lower));
    d.b.step.push_back(std::move(step));
    return static_cast<uint32_t>(d.p->code.size() - 1);
  }

  // Adds instruction k and what it needs: copies of instructions, or loads of what an earlier part holds. In code order, without recursion.
  uint32_t bring(Draft& d, uint32_t wanted) {
    std::vector<uint32_t> todo{wanted};
    while (!todo.empty()) {
      const uint32_t k = todo.back();
      if (d.made.contains(k)) {
        todo.pop_back();
        continue;
      }
      ProgramInstruction i = p_.code[k];
      const bool held = part_[k] != never && part_[k] != d.part;
      if (held) {
        i.kind = Kind::load;
        i.operand = static_cast<uint16_t>(own_ + operand_of_.at(k));
        i.in.clear();
        i.axes.clear();
        i.lower.clear();
        i.step.clear();
        i.dtype = held_[operand_of_.at(k)].dtype;
        d.known = d.known && out_.held[operand_of_.at(k)].known;
      }
      bool ready = true;
      for (uint32_t in : i.in) {
        if (d.made.contains(in)) continue;
        todo.push_back(in);
        ready = false;
      }
      if (!ready) continue;
      todo.pop_back();
      for (uint32_t& in : i.in) in = d.made.at(in);
      if (i.kind == Kind::load || i.kind == Kind::place) place_operand(d, i.operand);
      if (i.kind == Kind::load && !held) d.known = false;
      if (i.kind == Kind::index) {
        const auto found = std::find(d.axes.begin(), d.axes.end(), static_cast<size_t>(i.axis));
        if (found == d.axes.end()) {  // an axis of size 1
          i.kind = Kind::literal;
          i.i = 0;
        } else {
          i.axis = static_cast<uint8_t>(found - d.axes.begin());
        }
      }
      std::vector<int64_t> lower = held ? std::vector<int64_t>() : only(b_.lower[k], d.axes), step = held ? lower : only(b_.step[k], d.axes);
      if (!i.lower.empty()) i.lower.assign(d.axes.size(), 0);  // from here on `lower` only marks a guarded load
      d.made[k] = push(d, std::move(i), std::move(lower), std::move(step));
    }
    return d.made.at(wanted);
  }

  void finish(Draft& d, std::vector<ProgramStore> stores) {
    for (const ProgramStore& s : stores) place_operand(d, s.operand);
    d.p->stores = std::move(stores);
    if (d.b.across == 0) merge_axes(d.b, *d.p);
    stage_operands(d.b, *d.p);
    turn_rows(d.b, *d.p);
    join_lines(d.b, *d.p);
    for (ProgramInstruction& i : d.p->code) {
      for (uint32_t in : i.in) i.stage = std::max(i.stage, d.p->code[in].stage + (d.p->code[in].kind == Kind::reduce));
      d.p->stages = std::max(d.p->stages, i.stage + 1);
    }
    finish_binding(d.b, std::move(d.p));
    out_.parts.push_back({std::move(d.b), d.known});
  }

  void add_part(Axes part, const std::vector<uint32_t>& wanted) {
    std::vector<size_t> axes;
    for (size_t a = 0; a < b_.domain.size(); ++a) {
      if ((part >> a & 1) != 0) axes.push_back(a);
    }
    Draft d = draft(part, axes);
    std::vector<ProgramStore> stores;
    for (uint32_t k : wanted) {
      const uint32_t reg = bring(d, k);
      HeldLayout held{dtype_of(p_.code[k].cls), std::vector<int64_t>(b_.domain.size(), 0)};
      int64_t stride = 1;
      for (size_t n = axes.size(); n-- > 0; stride *= b_.domain[axes[n]]) held.strides[axes[n]] = stride;
      operand_of_[k] = held_.size();
      stores.push_back({static_cast<uint16_t>(own_ + held_.size()), reg});
      d.p->memory.push_back(held.dtype);
      d.p->gathered.push_back(0);
      held_.push_back(std::move(held));
    }
    d.b.strides.resize(own_ + held_.size());
    d.b.dims.resize(own_ + held_.size());
    for (uint32_t k : wanted) {
      size_t& end = d.known ? known_bytes_ : out_.bytes;
      out_.held.push_back({end, d.known});
      end += (static_cast<size_t>(elements_of(b_, part)) * ir::size_of(dtype_of(p_.code[k].cls)) + 63) / 64 * 64;
    }
    finish(d, std::move(stores));
  }

  void add_main() {
    std::vector<size_t> axes;
    for (size_t a = 0; a < b_.domain.size(); ++a) axes.push_back(a);
    Draft d = draft(never, axes);
    d.b.across = b_.across;
    d.b.places = b_.places;
    d.b.once = b_.once;
    d.b.in_order = b_.in_order;
    d.b.turned = b_.turned;
    d.b.turned_loads = b_.turned_loads;
    d.b.turned_places = b_.turned_places;
    d.p->row_rank = p_.row_rank;
    d.p->has_reductions = p_.has_reductions;
    // In code order: a reduction must not come before an unrelated one with which it shares a block.
    std::vector<uint8_t> needed(p_.code.size(), 0);
    for (const ProgramStore& s : p_.stores) needed[s.reg] = 1;
    for (uint32_t k = static_cast<uint32_t>(p_.code.size()); k-- > 0;) {
      if (needed[k] == 0 || part_[k] != never) continue;
      for (uint32_t in : p_.code[k].in) needed[in] = 1;
    }
    for (uint32_t k = 0; k < p_.code.size(); ++k) {
      if (needed[k] != 0) bring(d, k);
    }
    std::vector<ProgramStore> stores = p_.stores;
    for (ProgramStore& s : stores) s.reg = d.made.at(s.reg);
    d.known = false;
    finish(d, std::move(stores));
  }

  struct HeldLayout {
    DType dtype;
    std::vector<int64_t> strides;  // along each axis of the whole domain
  };

  const Bound b_;
  const Program p_;
  const size_t own_;
  int64_t total_ = 1;
  const std::vector<Axes> axes_;
  std::vector<Axes> part_;
  std::vector<uint8_t> reads_;
  std::vector<Axes> sets_;      // the sets of axes that have a part
  std::map<uint32_t, size_t> operand_of_;
  std::vector<HeldLayout> held_;
  size_t known_bytes_ = 0;
  Cut out_;
};

}  // namespace

Cut cut_program(const Program& given, std::span<const TensorRef> operands, std::span<const int64_t> sizes, std::vector<int64_t> domain) {
  Bound b = check_operands(given, operands, sizes, std::move(domain));
  Program p = given;
  merge_axes(b, p);
  choose_axis(b, p);
  split_places(b, p);
  const std::vector<Axes> axes = axes_of(b, p);  // a turned operand's strides no longer tell on which outer axes its elements depend
  turn_looked_up(b, p, axes);
  return Cutter(std::move(b), std::move(p), axes).run();
}

}  // namespace ingot::kernels
