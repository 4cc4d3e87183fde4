// Finds instructions of a bound program that run as one pass over their block. Patterns are matched from the outermost instruction
// inwards; inner instructions must have no other use.
#include <algorithm>
#include <optional>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

using ir::DType;
using ir::Op;

namespace {

constexpr uint32_t none = Together::none;

class Finder {
 public:
  Finder(Bound& b, const Program& p) : b_(b), p_(p), uses_(p.code.size(), 0) {
    for (const ProgramInstruction& i : p.code) {
      for (uint32_t in : i.in) ++uses_[in];
    }
    for (const ProgramStore& s : p.stores) ++uses_[s.reg];
  }

  void run() {
    for (uint32_t k = static_cast<uint32_t>(p_.code.size()); k-- > 0;) {
      if (b_.together[k].kind != Together::alone) continue;
      if (p_.code[k].kind == Kind::reduce) {
        if (b_.across != 0) {
          weighed(k);
        } else if (!b_.in_order) {
          reduction(k);
        }
      } else if (between(k) || cube(k) || places(k)) {
        continue;
      } else if (!b_.uniform[k] && block(k)) {
        if (activation(k) || normalisation(k) || product_and_sum(k) || extreme(k)) continue;
      }
    }
    for (uint32_t k = 0; k < p_.code.size(); ++k) {
      if (is(k, Op::div) && varies(k)) quotient(k);
    }
    for (const ProgramStore& s : p_.stores) stay_half(s);
    for (uint32_t k = 0; k < p_.code.size(); ++k) b_.in_memory[k] |= reads_any_true(k);
    // A difference that is used only in squared sums and normalisations is not computed.
    for (uint32_t k = static_cast<uint32_t>(p_.code.size()); k-- > 0;) {
      if (uses_[k] != 0 || p_.code[k].kind != Kind::map || b_.together[k].kind != Together::alone) continue;
      take(k);
      for (uint32_t in : at(k).in) --uses_[in];
    }
  }

 private:
  const ProgramInstruction& at(uint32_t k) const { return p_.code[k]; }
  bool block(uint32_t k) const { return at(k).kind == Kind::map && at(k).dtype == DType::f32; }
  bool is(uint32_t k, Op op) const { return block(k) && at(k).op == op && b_.together[k].kind == Together::alone; }
  bool varies(uint32_t k) const { return !b_.uniform[k]; }
  // True for a varying result of `op` with only this user.
  bool own(uint32_t k, Op op) const { return is(k, op) && varies(k) && uses_[k] == 1; }

  // Finds the operand of a binary instruction that satisfies `good`, and the other one.
  template <class F>
  bool either(uint32_t k, F good, uint32_t& chosen, uint32_t& other) const {
    for (size_t side = 0; side < 2; ++side) {
      if (!good(at(k).in[side])) continue;
      chosen = at(k).in[side];
      other = at(k).in[1 - side];
      return true;
    }
    return false;
  }
  // Replaces `times` uses of k by uses of k's operands.
  void pass_by(uint32_t k, int times, std::initializer_list<uint32_t> operands) {
    uses_[k] -= times;
    for (uint32_t o : operands) {
      if (o != none) ++uses_[o];
    }
  }
  void take(uint32_t k) { b_.together[k].kind = Together::absorbed; }

  static bool is_activation(Op op) { return op == Op::gelu || op == Op::gelu_tanh || op == Op::silu || op == Op::relu || op == Op::tanh || op == Op::sigmoid; }

  // Matches [+ r] [* y] activation([+ b] x) with at least one of the three.
  bool activation(uint32_t k) {
    auto active = [&](uint32_t v, bool root) { return block(v) && is_activation(at(v).op) && varies(v) && b_.together[v].kind == Together::alone && (root || uses_[v] == 1); };
    uint32_t product = none, function = none, y = none, r = none;
    if (active(k, true)) {
      function = k;
    } else if (is(k, Op::mul)) {
      if (!either(k, [&](uint32_t v) { return active(v, false); }, function, y)) return false;
    } else if (is(k, Op::add)) {
      if (either(k, [&](uint32_t v) { return own(v, Op::mul) && (active(at(v).in[0], false) || active(at(v).in[1], false)); }, product, r)) {
        either(product, [&](uint32_t v) { return active(v, false); }, function, y);
      } else if (!either(k, [&](uint32_t v) { return active(v, false); }, function, r)) {
        return false;
      }
    } else {
      return false;
    }
    uint32_t x = at(function).in[0], b = none;
    if (own(x, Op::add)) {
      uint32_t sum = x;
      x = at(sum).in[0];
      b = at(sum).in[1];
      take(sum);
    } else if (function == k) {
      return false;  // nothing is fused: leave the plain map
    }
    if (product != none) take(product);
    if (function != k) take(function);
    b_.together[k] = {Together::activate, at(function).op, {x, b, y, r, none}, none};
    return true;
  }

  // Matches ((x - m) * s) [* w] [+ b] with uniform m and s.
  bool normalisation(uint32_t k) {
    uint32_t root = k, b = none, w = none;
    if (is(k, Op::add)) {
      if (!either(k, [&](uint32_t v) { return own(v, Op::mul); }, root, b)) return false;
    } else if (!is(k, Op::mul)) {
      return false;
    }
    uint32_t scaled = root, centred = none, s = none;
    auto difference = [&](uint32_t v) { return is(v, Op::sub) && varies(v) && !b_.uniform[at(v).in[0]] && b_.uniform[at(v).in[1]]; };
    auto scaling = [&](uint32_t v, bool inner) {
      if (!(inner ? own(v, Op::mul) : is(v, Op::mul))) return false;
      return either(v, [&](uint32_t u) { return b_.uniform[u] != 0; }, s, centred) && varies(centred);
    };
    uint32_t inner = none;
    if (either(root, [&](uint32_t v) { return scaling(v, true); }, inner, w)) {
      scaling(inner, true);
      scaled = inner;
    } else {
      w = none;
      if (!scaling(root, false)) return false;
    }
    uint32_t x = centred, m = none;
    if (difference(centred)) {
      x = at(centred).in[0];
      m = at(centred).in[1];
    } else if (scaled == root) {
      return false;  // a product and a sum: left to the next pattern
    }
    if (scaled != root) take(scaled);
    if (root != k) take(root);
    if (m != none) pass_by(centred, 1, {x, m});
    b_.together[k] = {Together::normalise, Op::add, {x, m, s, w, b}, none};
    return true;
  }

  bool product_and_sum(uint32_t k) {
    if (!is(k, Op::add)) return false;
    uint32_t product = none, c = none;
    if (!either(k, [&](uint32_t v) { return own(v, Op::mul); }, product, c)) return false;
    take(product);
    b_.together[k] = {Together::multiply_add, Op::add, {at(product).in[0], at(product).in[1], c, none, none}, none};
    return true;
  }

  // Matches a chain of maxima or minima, as in max pooling, the innermost operand first. Of equal operands (zeros of both signs) it is the result.
  bool extreme(uint32_t k) {
    const Op op = at(k).op;
    if (!is(k, op) || (op != Op::max && op != Op::min)) return false;
    Together all{Together::extreme, op, {none, none, none, none, none}, none};
    size_t count = 0;
    uint32_t last = k;
    for (uint32_t inner = none, other = none; count < 3; last = inner) {
      if (!either(last, [&](uint32_t v) { return own(v, op); }, inner, other) || !varies(other)) break;
      take(inner);
      all.in[count++] = other;
    }
    if (count == 0) return false;
    const size_t chain = own(at(last).in[0], op) ? 0 : 1;  // the rest of a longer chain is the innermost operand
    all.in[count++] = at(last).in[1 - chain];
    all.in[count++] = at(last).in[chain];
    std::reverse(all.in, all.in + count);
    b_.together[k] = all;
    return true;
  }

  // True for a map of numbers that varies and is still alone, with an operation that blocks of its class have.
  bool plain(uint32_t k, Op op) const {
    const ProgramInstruction& i = at(k);
    const bool numbers = i.kind == Kind::map && (i.dtype == DType::f32 || i.dtype == DType::f64 || is_integer(i.cls));
    return numbers && i.op == op && varies(k) && b_.together[k].kind == Together::alone;
  }
  // The type whose memory is as blocks of the instruction's class.
  DType memory_of(uint32_t k) const { return dtype_of(at(k).cls); }

  // Matches min(high, max(low, x)) of two numbers for all, in this order: of two zeros the second counts.
  bool between(uint32_t k) {
    if (!plain(k, Op::min) || varies(at(k).in[0])) return false;
    const uint32_t high = at(k).in[0], inner = at(k).in[1];
    if (!plain(inner, Op::max) || uses_[inner] != 1 || varies(at(inner).in[0])) return false;
    const uint32_t low = at(inner).in[0], x = at(inner).in[1];
    take(inner);
    b_.together[k] = {Together::one_pass, Op::min, {x, low, high, none, none}, none, Pass::between, memory_of(k)};
    return true;
  }

  // Matches x * x * x.
  bool cube(uint32_t k) {
    uint32_t square = none, x = none;
    if (!plain(k, Op::mul) || is_integer(at(k).cls) || !either(k, [&](uint32_t v) { return plain(v, Op::mul) && uses_[v] == 1; }, square, x)) return false;
    if (at(square).in[0] != x || at(square).in[1] != x) return false;
    take(square);
    b_.together[k] = {Together::one_pass, Op::mul, {x, none, none, none, none}, none, Pass::cube, memory_of(k)};
    return true;
  }

  // Matches an ordering of the place along the last axis, which may have a number added or subtracted, and a number: a mask of triangles or of lengths.
  bool places(uint32_t k) {
    const ProgramInstruction& i = at(k);
    const bool orders = i.kind == Kind::map && (i.op == Op::lt || i.op == Op::le || i.op == Op::gt || i.op == Op::ge);
    const bool along_row = p_.row_rank == 1 && b_.across == 0 && b_.line == 0;
    if (!orders || !along_row || !varies(k)) return false;
    uint32_t place = none, bound = none;
    if (!either(k, [&](uint32_t v) { return varies(v); }, place, bound) || varies(bound) || at(bound).cls != Class::i64) return false;
    auto is_index = [&](uint32_t v) { return at(v).kind == Kind::index && at(v).cls == Class::i64 && varies(v); };
    // The place on the left.
    const Op op = i.in[0] == place ? i.op : i.op == Op::lt ? Op::gt : i.op == Op::le ? Op::ge : i.op == Op::gt ? Op::lt : Op::le;
    Together found{Together::places, op, {bound, none, none, none, none}, none};
    if (!is_index(place)) {
      const ProgramInstruction& moved = at(place);
      const bool adds = moved.kind == Kind::map && moved.dtype == DType::i64 && moved.cls == Class::i64 && (moved.op == Op::add || moved.op == Op::sub);
      uint32_t index = none, by = none;
      if (!adds || !either(place, is_index, index, by) || varies(by)) return false;
      found.in[1] = by;
      found.pass = moved.op == Op::add ? Pass::add : moved.in[0] == index ? Pass::sub : Pass::neg;
      pass_by(place, 1, {by});
      if (uses_[place] == 0) {
        take(place);
        if (--uses_[index] == 0) take(index);
      }
    } else if (--uses_[place] == 0) {
      take(place);
    }
    b_.together[k] = found;
    return true;
  }

  static std::optional<Pass> pass_of(Op op) {
    switch (op) {
      case Op::add: return Pass::add;
      case Op::sub: return Pass::sub;
      case Op::mul: return Pass::mul;
      case Op::div: return Pass::div;
      case Op::max: return Pass::max;
      case Op::min: return Pass::min;
      case Op::neg: return Pass::neg;
      case Op::abs: return Pass::abs;
      case Op::relu: return Pass::relu;
      case Op::sqrt: return Pass::sqrt;
      case Op::select: return Pass::select;
      default: return std::nullopt;
    }
  }

  // Halves that one operation makes of halves: they never become blocks of floats. Of the last instruction alone, as results may take the memory of an operand.
  void stay_half(const ProgramStore& s) {
    const bool stored_alone = p_.stores.size() == 1 && s.reg + 1 == p_.code.size() && uses_[s.reg] == 1;
    if (!is_read_where_it_is() || !stored_alone || !writes_halves(s) || !block(s.reg) || !varies(s.reg)) return;
    const DType type = p_.memory[s.operand];
    Together pass = b_.together[s.reg];
    if (pass.kind == Together::alone) {
      const std::optional<Pass> of = pass_of(at(s.reg).op);
      if (!of) return;
      pass = {Together::one_pass, at(s.reg).op, {none, none, none, none, none}, none, *of, type};
      std::copy(at(s.reg).in.begin(), at(s.reg).in.end(), pass.in);
    }
    if (pass.kind != Together::one_pass) return;
    pass.memory = type;
    const size_t first = pass.pass == Pass::select ? 1 : 0;  // behind the condition
    for (size_t n = first; n < 3; ++n) {
      const uint32_t in = pass.in[n];
      if (in != none && varies(in) && !(is_block_in_memory(in, type) && is_read_only_by(pass, in))) return;
    }
    for (size_t n = first; n < 3; ++n) {
      if (pass.in[n] != none && varies(pass.in[n])) b_.in_memory[pass.in[n]] = 1;
    }
    b_.together[s.reg] = pass;
  }
  // True if no operand is transposed, reduced or given by a kernel.
  bool is_read_where_it_is() const {
    const bool own = b_.staged.empty() && b_.transposed.empty() && b_.across == 0;
    return own && !p_.has_reductions && !p_.has_accumulator;
  }
  bool writes_halves(const ProgramStore& s) const {
    const bool along_row = p_.row_rank == 1 || b_.line != 0;
    if (!along_row || b_.strides.size() <= s.operand) return false;  // the store of a mask has no memory
    const DType type = p_.memory[s.operand];
    const auto last = static_cast<size_t>(p_.domain_rank) - 1;
    return (type == DType::f16 || type == DType::bf16) && is_solid(b_, p_, s.operand) && b_.dims[s.operand][last] == b_.domain[last];
  }
  bool is_block_in_memory(uint32_t k, DType type) const { return is_whole(b_, p_, k) && b_.repeats[k] == 0 && p_.memory[at(k).operand] == type; }

  // A load that nothing else reads. The instructions that a pass has absorbed read it too.
  bool is_read_only_by(const Together& pass, uint32_t load) const {
    const auto reads = std::count(pass.in, pass.in + 5, load);
    return pass.pass == Pass::cube ? uses_[load] == 3 : uses_[load] == reads;
  }

  // A load of bools whose users take any byte but 0 for true.
  bool reads_any_true(uint32_t k) const {
    if (at(k).kind != Kind::load || !is_read_where_it_is() || !is_block_in_memory(k, DType::b8)) return false;
    int good = 0;
    for (const ProgramInstruction& i : p_.code) {
      const bool map = i.kind == Kind::map && i.cls == Class::b8 && is_logic(i.op);
      for (size_t n = 0; n < i.in.size(); ++n) good += i.in[n] == k && (map || (i.kind == Kind::map && i.op == Op::select && n == 0));
    }
    return good == uses_[k];
  }
  static bool is_logic(Op op) { return op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor || op == Op::bit_not || op == Op::logical_not; }

  // Matches e / sum(e). The sum contains a 1 (or is NaN), so multiplying by its inverse is accurate.
  void quotient(uint32_t k) {
    uint32_t x = at(k).in[0], s = at(k).in[1];
    if (varies(x) && at(s).kind == Kind::reduce && b_.together[s].kind == Together::exp_sum) b_.together[k] = {Together::divide, Op::div, {x, s, none, none, none}, none};
  }

  // A double that is a widened f32: returns the f32.
  uint32_t narrow(uint32_t k) const {
    const bool widened = at(k).kind == Kind::map && at(k).op == Op::cast && at(k).cls == Class::f64 && at(at(k).in[0]).cls == Class::f32 && varies(at(k).in[0]);
    return widened ? at(k).in[0] : k;
  }

  // Across rows: matches the sum of [c ?] x * w [: 0].
  void weighed(uint32_t k) {
    const uint32_t v = at(k).in[0];
    if (at(k).reduction != Reduction::sum || !block(v)) return;
    uint32_t product = v, c = none;
    if (own(v, Op::select) && at(at(v).in[2]).kind == Kind::literal && at(at(v).in[2]).f == 0) {
      c = at(v).in[0];
      product = at(v).in[1];
    }
    uint32_t x = product, w = none;
    if (own(product, Op::mul)) {
      x = at(product).in[0];
      w = at(product).in[1];
      take(product);
    }
    if (x == v) return;
    if (c != none) take(v);
    b_.together[k] = {Together::weighed_sum, Op::add, {x, w, c, none, none}, none};
  }

  void reduction(uint32_t k) {
    if (at(k).reduction != Reduction::sum || (at(k).dtype != DType::f32 && at(k).dtype != DType::f64)) return;
    const uint32_t v = at(k).in[0];
    const DType type = at(v).kind == Kind::load ? p_.memory[at(v).operand] : DType::f32;
    if ((type == DType::f16 || type == DType::bf16) && uses_[v] == 1 && is_whole(b_, p_, v)) {
      b_.in_memory[v] = 1;
      b_.together[k] = {Together::half_sum, Op::add, {v, none, none, none, none}, none, Pass::add, type};
      return;
    }
    auto plain = [&](uint32_t u, Op op) { return at(u).kind == Kind::map && at(u).dtype == at(k).dtype && at(u).op == op && b_.together[u].kind == Together::alone && varies(u); };
    if (plain(v, Op::mul) && uses_[v] == 1 && at(v).in[0] != at(v).in[1] && varies(at(v).in[0]) && varies(at(v).in[1])) {
      take(v);
      b_.together[k] = {Together::product_sum, Op::add, {at(v).in[0], at(v).in[1], none, none, none}, none};
      return;
    }
    if (plain(v, Op::mul) && uses_[v] == 1 && at(v).in[0] == at(v).in[1]) {
      uint32_t x = at(v).in[0], m = none;
      const uint32_t c = x;
      if (plain(c, Op::sub) && varies(at(c).in[0]) && b_.uniform[at(c).in[1]]) {
        x = at(c).in[0];
        m = at(c).in[1];
      }
      if (at(k).dtype == DType::f64) x = narrow(x);
      if (x != c) pass_by(c, 2, {x, m});
      take(v);
      b_.together[k] = {Together::square_sum, Op::add, {x, m, none, none, none}, none};
      return;
    }
    if (at(k).dtype == DType::f64) {
      if (const uint32_t x = narrow(v); x != v) {
        pass_by(v, 1, {x, none});
        b_.together[k] = {Together::widened_sum, Op::add, {x, none, none, none, none}, none};
      }
      return;
    }
    if (is(v, Op::exp) && varies(v) && own(at(v).in[0], Op::sub)) {
      uint32_t difference = at(v).in[0], x = at(difference).in[0], m = at(difference).in[1];
      // Only if m is the row's own maximum: then no exponential exceeds 1.
      bool maximum = at(m).kind == Kind::reduce && at(m).reduction == Reduction::max && at(m).in[0] == x;
      if (!maximum || !varies(x)) return;
      take(difference);
      b_.together[v] = {Together::exp_sum, Op::exp, {x, m, none, none, none}, k};
      b_.together[k] = {Together::exp_sum, Op::exp, {v, none, none, none, none}, none};
    }
  }

  Bound& b_;
  const Program& p_;
  std::vector<int> uses_;
};

}  // namespace

void find_together(Bound& b, const Program& p) {
  b.together.assign(p.code.size(), {});
  b.in_memory.assign(p.code.size(), 0);
  Finder(b, p).run();
}

}  // namespace ingot::kernels
