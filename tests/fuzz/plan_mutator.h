// Changes a plan in memory, where its structure is known: any number of it becomes a neighbour, an edge or another number of the same kind; steps and
// operands are swapped, repeated and dropped. Written again, the file is a plan of which one thing is wrong.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace ingot::fuzz {

class PlanMutator {
 public:
  PlanMutator(plan::Plan& plan, unsigned seed) : plan_(plan), random_(seed) {}

  void change() {
    if (below(8) == 0) {
      change_lists();
      return;
    }
    collect();
    if (!numbers_.empty()) numbers_[below(numbers_.size())]();
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  template <class T>
  void number(T& x) {
    numbers_.push_back([this, &x] {
      const auto edges = {int64_t{0},
                          int64_t{1},
                          int64_t{-1},
                          int64_t{2},
                          int64_t{63},
                          int64_t{64},
                          int64_t{1} << 31,
                          int64_t{1} << 32,
                          int64_t{1} << 62,
                          std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min()};
      switch (below(5)) {
        case 0: x = static_cast<T>(static_cast<uint64_t>(x) + 1); break;
        case 1: x = static_cast<T>(static_cast<uint64_t>(x) - 1); break;
        case 2: x = static_cast<T>(*(edges.begin() + static_cast<std::ptrdiff_t>(below(edges.size())))); break;
        case 3: x = static_cast<T>(random_() % 64); break;
        default: x = static_cast<T>(static_cast<uint64_t>(x) ^ (uint64_t{1} << below(8 * sizeof(T))));
      }
    });
  }
  template <class T>
  void list(std::vector<T>& all) {
    for (T& x : all) number(x);
    if (!all.empty()) {
      numbers_.push_back([this, &all] {
        T& to = all[below(all.size())];
        to = all[below(all.size())];
      });
    }
  }
  void flag(bool& x) {
    numbers_.push_back([&x] { x = !x; });
  }
  template <class E>
  void kind(E& x, unsigned count) {
    numbers_.push_back([this, &x, count] { x = static_cast<E>(below(count)); });
  }

  void function(plan::Function& f) {
    for (plan::Symbol& s : f.symbols) {
      number(s.min);
      number(s.opt);
      number(s.max);
    }
    for (SizeInstruction& i : f.sizes.code) {
      kind(i.op, 10);
      number(i.a);
      number(i.b);
      number(i.value);
    }
    for (plan::Binding& b : f.bindings) {
      kind(b.dtype, ir::dtype_count);
      list(b.dims);
      list(b.order);
      kind(b.kind, 3);
      flag(b.written);
      number(b.weight);
    }
    for (plan::Check& c : f.checks) {
      number(c.left);
      number(c.right);
      flag(c.equal);
      number(c.origin);
    }
    for (plan::Value& v : f.values) {
      kind(v.dtype, ir::dtype_count);
      list(v.dims);
    }
    for (plan::Region& r : f.regions) {
      kind(r.kind, 3);
      number(r.condition);
      for (plan::Call& c : r.calls) {
        number(c.function);
        list(c.values);
        list(c.symbols);
      }
      for (plan::Region::Read& x : r.reads) {
        number(x.value);
        number(x.symbol);
        number(x.bound);
      }
    }
    for (plan::Program& p : f.programs) {
      for (plan::Buffer& b : p.buffers) {
        kind(b.kind, 4);
        number(b.index);
        number(b.bytes);
        number(b.first);
        number(b.last);
      }
      for (plan::Step& s : p.steps) {
        for (plan::OperandView& o : s.operands) {
          number(o.buffer);
          kind(o.dtype, ir::dtype_count);
          number(o.offset);
          list(o.dims);
          list(o.strides);
        }
        list(s.sizes);
        for (std::byte& b : s.constants) numbers_.push_back([this, &b] { b = static_cast<std::byte>(below(3) == 0 ? random_() % 256 : static_cast<unsigned>(b) + below(5) - 2); });
        number(s.origin);
        number(s.writes);
      }
    }
  }

  void collect() {
    numbers_.clear();
    for (plan::Function& f : plan_.functions) function(f);
    for (plan::ForTarget& t : plan_.targets) {
      function(t.prepare);
      for (plan::Derived& d : t.derived) number(d.bytes);
    }
    for (plan::Weight& w : plan_.weights) {
      kind(w.dtype, ir::dtype_count);
      list(w.dims);
      list(w.order);
    }
  }

  template <class T>
  void shuffle(std::vector<T>& all) {
    if (all.empty()) return;
    const size_t from = below(all.size()), to = below(all.size());
    switch (below(4)) {
      case 0: std::swap(all[from], all[to]); break;
      case 1: {
        T copy = all[from];
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(to), std::move(copy));
        break;
      }
      case 2: all.erase(all.begin() + static_cast<std::ptrdiff_t>(from)); break;
      default: {
        T copy = all[from];
        all[to] = std::move(copy);
      }
    }
  }

  void change_lists() {
    std::vector<plan::Function*> functions;
    for (plan::Function& f : plan_.functions) functions.push_back(&f);
    for (plan::ForTarget& t : plan_.targets) functions.push_back(&t.prepare);
    plan::Function& f = *functions[below(functions.size())];
    if (f.programs.empty()) return;
    plan::Program& p = f.programs[below(f.programs.size())];
    switch (below(7)) {
      case 0: shuffle(p.steps); break;
      case 1: shuffle(p.buffers); break;
      case 2: shuffle(f.bindings); break;
      case 3: shuffle(f.sizes.code); break;
      case 4: shuffle(plan_.weights); break;
      default: {
        if (p.steps.empty()) return;
        plan::Step& s = p.steps[below(p.steps.size())];
        switch (below(4)) {
          case 0: shuffle(s.operands); break;
          case 1: shuffle(s.sizes); break;
          case 2: s.constants = p.steps[below(p.steps.size())].constants; break;
          default: {
            if (s.operands.empty()) return;
            plan::OperandView& o = s.operands[below(s.operands.size())];
            shuffle(below(2) == 0 ? o.dims : o.strides);
          }
        }
      }
    }
  }

  plan::Plan& plan_;
  std::minstd_rand random_;
  std::vector<std::function<void()>> numbers_;
};

}  // namespace ingot::fuzz
