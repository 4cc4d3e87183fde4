// Random chains of views, and what they must give. Each value is kept with its graph node as plain numbers, moved by loops over indices at several
// values of the symbols: nothing here knows of affine maps, windows or the grouping of axes.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/compose.h"
#include "ir/reference.h"

namespace ingot::ir {

// How many chains a test makes; INGOT_TEST_ALL=1 makes twenty times as many.
inline uint32_t chains(uint32_t usual) {
  const char* all = std::getenv("INGOT_TEST_ALL");
  return all != nullptr && std::string(all) == "1" ? 20 * usual : usual;
}

struct Numbers {
  std::vector<int64_t> dims, at;  // row-major
};

class RandomViews {
 public:
  using Sizes = std::vector<int64_t>;
  struct Item {
    Handle value;
    std::vector<Numbers> numbers;  // for each setting of the symbols
  };
  // views: each number of every value is one of the input's. work: also padding, joins, updates, gathers, sums, products and arithmetic.
  enum Kind : uint8_t { views, work };

  RandomViews(uint32_t seed, Kind kind) : random_(seed), kind_(kind) {
    dtype_ = below(2) == 0 ? DType::f32 : DType::i64;
    const bool dynamic = below(2) == 0;
    if (dynamic) {
      const int64_t least = below(3);
      graph.symbols.push_back({"S", least, 3, 5});
      graph.symbols.push_back({"T", 1, 2, 4});
      for (int64_t s : {least, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}}) {
        if (s >= least && (settings.empty() || settings.back()[0] < s)) settings.push_back({s, 1 + below(4)});
      }
    } else {
      settings.push_back({});
    }
    Dims dims;
    for (int64_t rank = 1 + below(4), d = 0; d < rank; ++d) {
      static constexpr int64_t common[] = {1, 1, 1, 2, 2, 3, 4, 5, 6, 8};
      const int64_t pick = below(40);
      dims.push_back(pick == 0 ? Dim(0) : dynamic && pick < 14 ? Dim::symbol(static_cast<SymbolId>(pick % 2)) : Dim(common[below(10)]));
    }
    Item x{Handle(&graph, graph.add_input("x", {dtype_, dims})), {}};
    for (size_t s = 0; s < settings.size(); ++s) {
      x.numbers.push_back(made(sizes(dims, s), [&](const Sizes&) { return int64_t{0}; }));
      std::iota(x.numbers.back().at.begin(), x.numbers.back().at.end(), int64_t{0});
    }
    if (dynamic) graph.add_input("sizes", {dtype_, {Dim::symbol(0), Dim::symbol(1)}});  // which says what every symbol is
    text = "x" + show(dims);
    items.push_back(std::move(x));
    const int64_t steps = 2 + below(9);
    for (int64_t made_steps = 0, tries = 0; made_steps < steps && tries < 60; ++tries) made_steps += step();
    graph.outputs.push_back({items.back().value.id(), "y", {}});
    outputs = {items.size() - 1};
    if (size_t other = static_cast<size_t>(below(static_cast<int64_t>(items.size()))); below(3) == 0 && other != outputs[0]) {
      graph.outputs.push_back({items[other].value.id(), "z", {}});
      outputs.push_back(other);
    }
  }

  std::vector<Array> inputs(size_t setting) const {
    std::vector<Array> given{array(items[0].numbers[setting])};
    if (!settings[setting].empty()) given.push_back(Array::empty(dtype_, settings[setting]));
    return given;
  }
  Array array(const Numbers& n) const {
    Array a = Array::empty(dtype_, n.dims);
    for (size_t i = 0; i < n.at.size(); ++i) {
      auto put = [&](auto v) { std::memcpy(a.bytes.data() + i * sizeof(v), &v, sizeof(v)); };
      dtype_ == DType::f32 ? put(static_cast<float>(n.at[i])) : put(n.at[i]);
    }
    return a;
  }
  static std::vector<int64_t> integers(const Array& a) {
    std::vector<int64_t> out(static_cast<size_t>(a.numel()));
    if (out.empty()) return out;
    if (a.dtype == DType::i64) std::memcpy(out.data(), a.bytes.data(), a.bytes.size());
    if (a.dtype == DType::i64) return out;
    std::vector<float> floats(out.size());
    std::memcpy(floats.data(), a.bytes.data(), a.bytes.size());
    std::transform(floats.begin(), floats.end(), out.begin(), [](float f) { return static_cast<int64_t>(f); });
    return out;
  }
  // What an output should be at a setting, in words where `found` is something else.
  std::string difference(size_t output, size_t setting, const Array& found) const {
    const Array wanted = array(items[outputs[output]].numbers[setting]);
    if (found.dtype == wanted.dtype && found.dims == wanted.dims && integers(found) == integers(wanted)) return "";
    return "output " + std::to_string(output) + " at " + show(settings[setting]) + " is " + show(found) + ", not " + show(wanted) + "\n  of " + text;
  }

  Graph graph;
  std::vector<Sizes> settings;  // values of the symbols
  std::vector<Item> items;      // the input, then what each step made
  std::vector<size_t> outputs;  // items
  std::string text;

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  bool chance(int64_t one_in) { return below(one_in) == 0; }

  // ---- numbers

  Sizes sizes(const Dims& dims, size_t setting) const {
    Sizes out;
    for (const Dim& d : dims) out.push_back(d.evaluate(settings[setting]));
    return out;
  }
  template <class F>
  static Numbers made(Sizes dims, F number_at) {
    Numbers out{std::move(dims), {}};
    const int64_t count = std::accumulate(out.dims.begin(), out.dims.end(), int64_t{1}, std::multiplies<>());
    Sizes index(out.dims.size(), 0);
    for (int64_t n = 0; n < count; ++n) {
      out.at.push_back(number_at(index));
      for (size_t d = index.size(); d-- > 0 && ++index[d] == out.dims[d];) index[d] = 0;
    }
    return out;
  }
  static int64_t number(const Numbers& x, const Sizes& index) {
    int64_t n = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      if (index[d] < 0 || index[d] >= x.dims[d]) throw std::logic_error("the test reads outside of a tensor");
      n = n * x.dims[d] + index[d];
    }
    return x.at[static_cast<size_t>(n)];
  }
  static Sizes with(Sizes s, size_t axis, int64_t v) {
    s[axis] = v;
    return s;
  }
  static Sizes without(Sizes s, size_t axis) {
    s.erase(s.begin() + static_cast<int64_t>(axis));
    return s;
  }

  // ---- text

  std::string show(const Dim& d) const { return d.text(graph.symbols); }
  static std::string show(int64_t n) { return std::to_string(n); }
  template <class T>
  std::string show(const std::vector<T>& many) const {
    std::string s = "[";
    for (size_t i = 0; i < many.size(); ++i) s += (i == 0 ? "" : ", ") + show(many[i]);
    return s + "]";
  }
  std::string show(const Array& a) const {
    std::string s = show(a.dims) + " {";
    const std::vector<int64_t> numbers = integers(a);
    for (size_t i = 0; i < std::min<size_t>(numbers.size(), 40); ++i) s += (i == 0 ? "" : " ") + std::to_string(numbers[i]);
    return s + "}";
  }

  // ---- steps

  static constexpr int64_t max_elements = 600;

  // The least size of an axis, and the most elements, at any setting.
  int64_t least(const Item& x, size_t axis) const {
    int64_t n = INT64_MAX;
    for (const Numbers& m : x.numbers) n = std::min(n, m.dims[axis]);
    return n;
  }
  int64_t largest(const Item& x) const {
    size_t n = 0;
    for (const Numbers& m : x.numbers) n = std::max(n, m.at.size());
    return static_cast<int64_t>(n);
  }
  template <class F>
  bool add(std::string name, Handle value, F numbers) {
    Item next{value, {}};
    for (size_t s = 0; s < settings.size(); ++s) next.numbers.push_back(numbers(s));
    for (const Numbers& n : next.numbers) {  // that f32 counts exactly, however they are summed up
      if (std::any_of(n.at.begin(), n.at.end(), [](int64_t i) { return std::abs(i) > (1 << 20); })) return false;
    }
    text += "\n    ." + std::move(name);
    items.push_back(std::move(next));
    return true;
  }

  bool step() {
    // Mostly the chain goes on; now and then it starts again from an older value.
    const Item x = items[chance(12) ? static_cast<size_t>(below(static_cast<int64_t>(items.size()))) : items.size() - 1];
    using Step = bool (RandomViews::*)(const Item&);
    static constexpr Step moves[] = {&RandomViews::permute, &RandomViews::permute,   &RandomViews::reshape, &RandomViews::reshape,  &RandomViews::reshape, &RandomViews::slice,
                                     &RandomViews::slice,   &RandomViews::slice,     &RandomViews::take,    &RandomViews::flip,     &RandomViews::expand,  &RandomViews::expand,
                                     &RandomViews::squeeze, &RandomViews::unsqueeze, &RandomViews::windows, &RandomViews::diagonal, &RandomViews::flatten, &RandomViews::flatten};
    static constexpr Step works[] = {&RandomViews::pad,          &RandomViews::pad,    &RandomViews::plus_number, &RandomViews::plus_first,
                                     &RandomViews::plus_flipped, &RandomViews::concat, &RandomViews::replace,     &RandomViews::pick,
                                     &RandomViews::sum,          &RandomViews::choose, &RandomViews::multiply};
    const bool work_now = kind_ == work && below(5) < 2;
    try {
      return work_now ? (this->*works[below(std::size(works))])(x) : (this->*moves[below(std::size(moves))])(x);
    } catch (const Error& e) {
      if (e.code != Code::unsupported) throw;  // a slice by a size whose sign is not known
      return false;
    }
  }

  size_t any_axis(const Item& x) { return static_cast<size_t>(below(x.value.rank())); }

  bool permute(const Item& x) {
    if (x.value.rank() < 2) return false;
    Axes order(static_cast<size_t>(x.value.rank()));
    std::iota(order.begin(), order.end(), Axis{0});
    std::shuffle(order.begin(), order.end(), random_);
    return add("permute" + show(order), ir::permute(x.value, order), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      Sizes dims;
      for (Axis a : order) dims.push_back(from.dims[static_cast<size_t>(a)]);
      return made(dims, [&](const Sizes& at) {
        Sizes index(at.size());
        for (size_t i = 0; i < at.size(); ++i) index[static_cast<size_t>(order[i])] = at[i];
        return number(from, index);
      });
    });
  }

  // Sizes that multiply to the given one, as far as they are known.
  Dims factors(const Dim& d) const {
    if (auto known = factors_.find(show(d)); known != factors_.end()) return known->second;
    auto n = d.constant();
    if (!n || *n < 2) return {d};
    Dims out;
    for (int64_t left = *n, p = 2; left > 1; left % p == 0 ? (out.push_back(p), left /= p) : ++p) {
    }
    return out;
  }
  bool reshape(const Item& x) {
    Dims all;
    for (const Dim& d : x.value.dims()) {
      for (const Dim& f : factors(d)) {
        if (!(f == Dim(1))) all.push_back(f);
      }
    }
    if (chance(3)) std::shuffle(all.begin(), all.end(), random_);
    Dims dims;
    for (size_t i = 0; i < all.size();) {
      while (chance(6) && dims.size() < 6) dims.push_back(1);
      Dims group;
      Dim product = 1;
      const size_t end = std::min(all.size(), i + 1 + static_cast<size_t>(below(3)));
      for (; i < end; ++i) {
        product *= all[i];
        group.push_back(all[i]);
      }
      if (!product.is_constant()) factors_[show(product)] = group;
      dims.push_back(product);
    }
    while (chance(4) && dims.size() < 7) dims.push_back(1);
    if (dims.size() > 7) return false;
    return reshaped("reshape", x, dims);
  }
  bool reshaped(const char* name, const Item& x, const Dims& dims) {
    return add(name + show(dims), ir::reshape(x.value, dims), [&](size_t s) { return Numbers{sizes(dims, s), x.numbers[s].at}; });
  }
  bool flatten(const Item& x) {
    if (x.value.rank() < 2) return false;
    size_t first = any_axis(x), last = any_axis(x);
    if (first > last) std::swap(first, last);
    Dims dims, group;
    for (size_t i = 0; i < x.value.dims().size(); ++i) {
      if (i <= first || i > last) dims.push_back(1);
      dims.back() *= x.value.dims()[i];
      if (i < first || i > last) continue;
      for (const Dim& f : factors(x.value.dims()[i])) group.push_back(f);
    }
    if (!dims[first].is_constant()) factors_[show(dims[first])] = group;
    const std::string name = "flatten(" + show(static_cast<int64_t>(first)) + ", " + show(static_cast<int64_t>(last)) + ")";
    return add(name, ir::flatten(x.value, static_cast<Axis>(first), static_cast<Axis>(last)), [&](size_t s) { return Numbers{sizes(dims, s), x.numbers[s].at}; });
  }

  // Python's slice of an axis: the indices that it reads.
  static Sizes sliced(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
    auto bound = [&](int64_t v) { return std::clamp(v < 0 ? v + size : v, int64_t{0}, size); };
    Sizes out;
    for (int64_t i = start ? bound(*start) : 0; i < (end ? bound(*end) : size); i += step) out.push_back(i);
    return out;
  }
  std::optional<Dim> bound(const Dim& size) {
    switch (below(5)) {
      case 0: return std::nullopt;
      case 1: return size - Dim(below(3));
      case 2: return Dim(-1 - below(3));
      default: return Dim(below(7));
    }
  }
  bool slice(const Item& x) {
    if (x.value.rank() == 0) return false;
    const size_t axis = any_axis(x);
    const std::optional<Dim> start = bound(x.value.dims()[axis]), end = bound(x.value.dims()[axis]);
    const int64_t by = chance(3) ? 2 + below(3) : 1;
    const std::string name = "slice(" + std::to_string(axis) + ", " + (start ? show(*start) : "") + ":" + (end ? show(*end) : "") + ":" + std::to_string(by) + ")";
    return add(name, ir::slice(x.value, static_cast<Axis>(axis), start, end, by), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      auto value = [&](const std::optional<Dim>& d) { return d ? std::optional(d->evaluate(settings[s])) : std::nullopt; };
      const Sizes read = sliced(from.dims[axis], value(start), value(end), by);
      return made(with(from.dims, axis, static_cast<int64_t>(read.size())), [&](const Sizes& at) { return number(from, with(at, axis, read[static_cast<size_t>(at[axis])])); });
    });
  }
  bool take(const Item& x) {
    if (x.value.rank() == 0) return false;
    const size_t axis = any_axis(x);
    const int64_t size = least(x, axis);
    if (size == 0) return false;
    const Dim at = chance(4) ? x.value.dims()[axis] - Dim(1) : Dim(below(2 * size) - size);
    return add("take(" + std::to_string(axis) + ", " + show(at) + ")", ir::take(x.value, static_cast<Axis>(axis), at), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      int64_t where = at.evaluate(settings[s]);
      if (where < 0) where += from.dims[axis];
      return made(without(from.dims, axis), [&](Sizes index) {
        index.insert(index.begin() + static_cast<int64_t>(axis), where);
        return number(from, index);
      });
    });
  }
  Numbers flipped(const Numbers& from, const Axes& axes) const {
    return made(from.dims, [&](Sizes at) {
      for (Axis a : axes) at[static_cast<size_t>(a)] = from.dims[static_cast<size_t>(a)] - 1 - at[static_cast<size_t>(a)];
      return number(from, at);
    });
  }
  Axes some_axes(const Item& x) {
    Axes axes;
    for (Axis a = 0; a < x.value.rank(); ++a) {
      if (chance(2)) axes.push_back(a);
    }
    return axes;
  }
  bool flip(const Item& x) {
    const Axes axes = some_axes(x);
    return !axes.empty() && add("flip" + show(axes), ir::flip(x.value, axes), [&](size_t s) { return flipped(x.numbers[s], axes); });
  }
  bool expand(const Item& x) {
    Dims dims = x.value.dims();
    auto repeats = [&] { return graph.symbols.empty() || chance(2) ? Dim(1 + below(4)) : Dim::symbol(static_cast<SymbolId>(below(2))); };
    for (Dim& d : dims) {
      if (d == Dim(1) && chance(2)) d = repeats();
    }
    if (chance(3)) dims.insert(dims.begin(), repeats());
    if (dims == x.value.dims() || dims.size() > 6) return false;
    for (size_t s = 0; s < settings.size(); ++s) {
      const Sizes wide = sizes(dims, s);
      if (std::accumulate(wide.begin(), wide.end(), int64_t{1}, std::multiplies<>()) > max_elements) return false;
    }
    const size_t lead = dims.size() - x.value.dims().size();
    return add("expand" + show(dims), ir::expand(x.value, dims), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      return made(sizes(dims, s), [&](const Sizes& at) {
        Sizes index(at.begin() + static_cast<int64_t>(lead), at.end());
        for (size_t i = 0; i < index.size(); ++i) index[i] = from.dims[i] == 1 ? 0 : index[i];
        return number(from, index);
      });
    });
  }
  bool unsqueeze(const Item& x) {
    if (x.value.rank() > 5) return false;
    const int64_t axis = below(x.value.rank() + 1);
    return add("unsqueeze(" + show(axis) + ")", ir::unsqueeze(x.value, axis), [&](size_t s) {
      Numbers out = x.numbers[s];
      out.dims.insert(out.dims.begin() + axis, 1);
      return out;
    });
  }
  bool squeeze(const Item& x) {
    for (size_t a = 0; a < x.value.dims().size(); ++a) {
      if (!(x.value.dims()[a] == Dim(1)) || chance(2)) continue;
      return add("squeeze(" + std::to_string(a) + ")", ir::squeeze(x.value, static_cast<Axis>(a)),
                 [&](size_t s) { return Numbers{without(x.numbers[s].dims, a), x.numbers[s].at}; });
    }
    return false;
  }
  bool windows(const Item& x) {
    if (x.value.rank() == 0 || x.value.rank() > 4) return false;
    const size_t axis = any_axis(x);
    const int64_t size = 1 + below(3), by = 1 + below(2);
    if (least(x, axis) < size || largest(x) * size > max_elements) return false;
    AffineMap map;
    for (uint32_t i = 0; i < x.value.dims().size(); ++i) map.axes.push_back({0, {{i, i == axis ? by : 1}}});
    map.dims = x.value.dims();
    map.dims[axis] = floordiv(map.dims[axis] - Dim(size), by) + Dim(1);
    map.axes[axis].terms.push_back({static_cast<uint32_t>(map.dims.size()), 1});
    map.dims.push_back(size);
    return add("windows(" + std::to_string(axis) + ", " + show(size) + ", " + show(by) + ")", ir::view(x.value, map), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      Sizes dims = with(from.dims, axis, (from.dims[axis] - size) / by + 1);
      dims.push_back(size);
      return made(dims, [&](Sizes at) {
        at[axis] = at[axis] * by + at.back();
        at.pop_back();
        return number(from, at);
      });
    });
  }
  bool diagonal(const Item& x) {
    if (x.value.rank() < 2) return false;
    const size_t a = any_axis(x), b = any_axis(x);
    if (a == b) return false;
    AffineMap map;
    for (size_t i = 0; i < x.value.dims().size(); ++i) {
      map.axes.push_back({});
      if (i == a || i == b) continue;
      map.axes.back().terms = {{static_cast<uint32_t>(map.dims.size()), 1}};
      map.dims.push_back(x.value.dims()[i]);
    }
    map.axes[a].terms = map.axes[b].terms = {{static_cast<uint32_t>(map.dims.size()), 1}};
    map.dims.push_back(min(x.value.dims()[a], x.value.dims()[b]));
    return add("diagonal(" + std::to_string(a) + ", " + std::to_string(b) + ")", ir::view(x.value, map), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      Sizes dims = without(without(from.dims, std::max(a, b)), std::min(a, b));
      dims.push_back(std::min(from.dims[a], from.dims[b]));
      return made(dims, [&](Sizes at) {
        const int64_t i = at.back();
        at.pop_back();
        at.insert(at.begin() + static_cast<int64_t>(std::min(a, b)), i);
        at.insert(at.begin() + static_cast<int64_t>(std::max(a, b)), i);
        return number(from, at);
      });
    });
  }

  // ---- more than views

  bool pad(const Item& x) {
    Dims before, after;
    int64_t wide = 1;
    for (size_t i = 0; i < x.value.dims().size(); ++i) {
      static constexpr int64_t amounts[] = {0, 0, 0, 1, 2, -1};
      const int64_t b = amounts[below(6)], a = amounts[below(6)];
      if (a + b + least(x, i) < 0) return false;
      before.push_back(b);
      after.push_back(a);
      wide *= 1 + std::max(int64_t{0}, a) + std::max(int64_t{0}, b);
    }
    if (x.value.rank() == 0 || largest(x) * wide > max_elements * 4) return false;
    const int64_t fill = dtype_ == DType::f32 && chance(2) ? 0 : -7;
    return add("pad(" + show(before) + ", " + show(after) + ", " + show(fill) + ")",
               ir::pad(x.value, before, after, dtype_ == DType::f32 ? Scalar(static_cast<double>(fill)) : Scalar(fill)), [&](size_t s) {
                 const Numbers& from = x.numbers[s];
                 Sizes dims = from.dims;
                 for (size_t i = 0; i < dims.size(); ++i) dims[i] += before[i].value() + after[i].value();
                 return made(dims, [&](Sizes at) {
                   for (size_t i = 0; i < at.size(); ++i) {
                     at[i] -= before[i].value();
                     if (at[i] < 0 || at[i] >= from.dims[i]) return fill;
                   }
                   return number(from, at);
                 });
               });
  }
  static Numbers each(const Numbers& x, const std::function<int64_t(int64_t)>& f) {
    Numbers out = x;
    for (int64_t& n : out.at) n = f(n);
    return out;
  }
  bool plus_number(const Item& x) {
    const int64_t k = 1 + below(9);
    if (chance(3)) return add("neg", -x.value, [&](size_t s) { return each(x.numbers[s], std::negate<>()); });
    return add("add(" + show(k) + ")", x.value + Operand(k), [&](size_t s) { return each(x.numbers[s], [&](int64_t n) { return n + k; }); });
  }
  bool plus_first(const Item& x) {
    if (x.value.rank() == 0) return false;
    const size_t axis = any_axis(x);
    if (least(x, axis) == 0) return false;
    const Handle first = ir::take(x.value, static_cast<Axis>(axis), 0);
    return add("add_first(" + std::to_string(axis) + ")", x.value + ir::unsqueeze(first, static_cast<Axis>(axis)), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      return made(from.dims, [&](const Sizes& at) { return number(from, at) + number(from, with(at, axis, 0)); });
    });
  }
  bool plus_flipped(const Item& x) {
    const Axes axes = some_axes(x);
    return !axes.empty() && add("add_flipped" + show(axes), x.value + ir::flip(x.value, axes), [&](size_t s) {
      Numbers out = flipped(x.numbers[s], axes);
      for (size_t i = 0; i < out.at.size(); ++i) out.at[i] += x.numbers[s].at[i];
      return out;
    });
  }
  bool concat(const Item& x) {
    if (x.value.rank() == 0 || largest(x) * 2 > max_elements) return false;
    const size_t axis = any_axis(x);
    const int64_t from_here = below(3);
    const Handle tail = ir::slice(x.value, static_cast<Axis>(axis), Dim(from_here), std::nullopt, 1);
    const bool tail_first = chance(2);
    const Handle joined = ir::concat(tail_first ? std::vector<Handle>{tail, x.value} : std::vector<Handle>{x.value, tail}, static_cast<Axis>(axis));
    return add((tail_first ? "join_tail_first(" : "join_tail(") + std::to_string(axis) + ", " + show(from_here) + ")", joined, [&](size_t s) {
      const Numbers& from = x.numbers[s];
      const int64_t size = from.dims[axis], cut = std::min(size, from_here), tails = size - cut;
      return made(with(from.dims, axis, size + tails), [&](const Sizes& at) {
        const int64_t i = at[axis];
        if (tail_first) return number(from, with(at, axis, i < tails ? i + cut : i - tails));
        return number(from, with(at, axis, i < size ? i : i - size + cut));
      });
    });
  }
  // x[.., start:end:step, ..] = that + 100
  bool replace(const Item& x) {
    if (x.value.rank() == 0) return false;
    const size_t axis = any_axis(x);
    const int64_t size = least(x, axis);
    if (size == 0) return false;
    const int64_t start = below(size), length = 1 + below(size - start), by = chance(3) && start + 2 * (length - 1) < size ? 2 : 1;
    const AffineMap map = slice_map(x.value.dims(), static_cast<Axis>(axis), start, length, by);
    const Handle part = ir::slice(x.value, static_cast<Axis>(axis), Dim(start), Dim(start + (length - 1) * by + 1), by);
    return add("replace(" + std::to_string(axis) + ", " + show(start) + ", " + show(length) + ", " + show(by) + ")", ir::update(x.value, map, part + Operand(100)), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      return made(from.dims, [&](const Sizes& at) {
        const int64_t i = at[axis] - start;
        return number(from, at) + (i >= 0 && i % by == 0 && i / by < length ? 100 : 0);
      });
    });
  }
  // Through indices that are computed: start, start + by, ...
  bool pick(const Item& x) {
    if (x.value.rank() == 0) return false;
    const size_t axis = any_axis(x);
    const int64_t size = least(x, axis);
    if (size == 0) return false;
    const int64_t start = below(size), by = below(3) - 1, room = by > 0 ? size - start : by < 0 ? start + 1 : 3, count = 1 + below(room);
    const Handle indices = ir::iota(graph, count) * Operand(by) + Operand(start);
    return add("pick(" + std::to_string(axis) + ", " + show(start) + " + " + show(by) + " * i, " + show(count) + ")",
               ir::gather(x.value, {static_cast<Axis>(axis)}, {indices}, static_cast<int64_t>(axis), chance(2)), [&](size_t s) {
                 const Numbers& from = x.numbers[s];
                 return made(with(from.dims, axis, count), [&](const Sizes& at) { return number(from, with(at, axis, start + by * at[axis])); });
               });
  }
  bool sum(const Item& x) {
    if (x.value.rank() == 0) return false;
    const size_t axis = any_axis(x);
    const bool kept = chance(2);
    return add(std::string(kept ? "sum_keep(" : "sum(") + std::to_string(axis) + ")", ir::sum(x.value, {static_cast<Axis>(axis)}, kept ? keep : drop), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      return made(kept ? with(from.dims, axis, 1) : without(from.dims, axis), [&](Sizes at) {
        if (!kept) at.insert(at.begin() + static_cast<int64_t>(axis), 0);
        int64_t total = 0;
        for (int64_t i = 0; i < from.dims[axis]; ++i) total += number(from, with(at, axis, i));
        return total;
      });
    });
  }
  bool choose(const Item& x) {
    if (x.value.rank() == 0) return false;
    const size_t axis = any_axis(x);
    const int64_t end = below(4);
    const Handle inside = ir::index(graph, x.value.dims(), static_cast<Axis>(axis)) < Operand(end);
    return add("add_before(" + std::to_string(axis) + ", " + show(end) + ")", ir::select(inside, x.value + Operand(50), x.value), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      return made(from.dims, [&](const Sizes& at) { return number(from, at) + (at[axis] < end ? 50 : 0); });
    });
  }
  // A product with weights 0, 1 and 2.
  bool multiply(const Item& x) {
    if (x.value.rank() < 2 || dtype_ != DType::f32) return false;
    auto inner = x.value.dims().back().constant();
    if (!inner || *inner == 0 || *inner > 8) return false;
    const int64_t columns = 1 + below(4);
    auto data = std::make_shared<std::vector<float>>();
    for (int64_t i = 0; i < *inner * columns; ++i) data->push_back(static_cast<float>(below(3)));
    Weight w;
    w.name = "w" + std::to_string(graph.weights.size());
    w.data = reinterpret_cast<const std::byte*>(data->data());
    w.bytes = data->size() * sizeof(float);
    w.keep = data;
    const Handle weight(&graph, graph.add_weight(std::move(w), {DType::f32, {Dim(*inner), Dim(columns)}}));
    return add("multiply(" + show(*inner) + ", " + show(columns) + ")", ir::matmul(x.value, weight), [&](size_t s) {
      const Numbers& from = x.numbers[s];
      const size_t last = from.dims.size() - 1;
      return made(with(from.dims, last, columns), [&](const Sizes& at) {
        int64_t total = 0;
        for (int64_t k = 0; k < *inner; ++k) total += number(from, with(at, last, k)) * static_cast<int64_t>((*data)[static_cast<size_t>(k * columns + at[last])]);
        return total;
      });
    });
  }

  std::mt19937 random_;
  Kind kind_;
  DType dtype_ = DType::f32;
  std::map<std::string, Dims> factors_;
};

}  // namespace ingot::ir
