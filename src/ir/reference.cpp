#include "ir/reference.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/function_ref.h"
#include "ir/evaluate.h"
#include "ir/half.h"
#include "ir/symbols.h"

namespace ingot::ir {

int64_t Array::numel() const {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (__builtin_mul_overflow(n, d, &n)) throw std::bad_alloc();  // no memory holds as many
  }
  return n;
}

Array Array::empty(DType dtype, std::vector<int64_t> dims) {
  Array a{dtype, std::move(dims), {}};
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(a.numel()), size_of(dtype), &bytes)) throw std::bad_alloc();
  a.bytes.resize(bytes);
  return a;
}

namespace {

// The checks whose symbols are all such.
void check_sizes(const Graph& g, std::span<const int64_t> symbols, FunctionRef<bool(SymbolId)> known) {
  std::vector<SymbolId> used;
  for (const Check& c : g.checks) {
    used.clear();
    c.left.collect_symbols(used);
    c.right.collect_symbols(used);
    if (!std::all_of(used.begin(), used.end(), [&](SymbolId s) { return known(s); })) continue;
    int64_t l = c.left.evaluate(symbols), r = c.right.evaluate(symbols);
    if (c.kind == Check::equal ? l != r : l > r) {
      fail(Code::invalid_input, "{}: {} = {} and {} = {} do not fit", c.why, c.left.text(g.symbols), l, c.right.text(g.symbols), r);
    }
  }
}

}  // namespace

std::vector<int64_t> bind_symbols(const Graph& g, std::span<const std::vector<int64_t>> input_dims) {
  if (input_dims.size() != g.inputs.size()) fail(Code::invalid_input, "{} inputs are given, the graph takes {}", input_dims.size(), g.inputs.size());
  std::vector<int64_t> symbols(g.symbols.size(), INT64_MIN);
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Dims dims = g.given_dims(g.inputs[i]);
    if (dims.size() != input_dims[i].size()) {
      fail(Code::invalid_input, "input \"{}\" has rank {}, the graph takes rank {}", g.inputs[i].name, input_dims[i].size(), dims.size());
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      auto size = linear_size(dims[d]);
      if (size && (symbols[size->symbol] == INT64_MIN || size->plain())) symbols[size->symbol] = size->symbol_at(input_dims[i][d]);
    }
  }
  for (size_t s = 0; s < symbols.size(); ++s) {
    if (symbols[s] == INT64_MIN) symbols[s] = g.symbols[s].opt;  // not the size of any axis: nothing depends on it
    if (symbols[s] < g.symbols[s].min || symbols[s] > g.symbols[s].max) {
      fail(Code::invalid_input, "size {} is {}, outside {}..{}", g.symbols[s].name, symbols[s], g.symbols[s].min, g.symbols[s].max);
    }
  }
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Dims dims = g.given_dims(g.inputs[i]);
    for (size_t d = 0; d < dims.size(); ++d) {
      int64_t want = dims[d].evaluate(symbols);
      if (want != input_dims[i][d]) {
        fail(Code::invalid_input, "axis {} of input \"{}\" has size {}, but {} = {} is needed", d, g.inputs[i].name, input_dims[i][d], dims[d].text(g.symbols), want);
      }
    }
  }
  const std::vector<uint32_t> reads = read_symbols(g);
  check_sizes(g, symbols, [&](SymbolId s) { return reads[s] == none_id; });
  return symbols;
}

namespace {

template <class T>
T read(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
void write(std::byte* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

Data permuted(const Data& from, const std::vector<int64_t>& order) {
  Data to{from.dtype, {}, {}, {}};
  for (int64_t axis : order) to.dims.push_back(from.dims[static_cast<size_t>(axis)]);
  to.allocate();
  Index at(from.dims.size(), 0);  // in `from`
  for (size_t n = 0, count = static_cast<size_t>(to.numel()); n < count; ++n) {
    size_t source = 0;
    for (size_t d = 0; d < at.size(); ++d) source = source * static_cast<size_t>(from.dims[d]) + static_cast<size_t>(at[d]);
    to.copy(n, from, source);
    for (size_t k = order.size(); k-- > 0;) {
      const auto axis = static_cast<size_t>(order[k]);
      if (++at[axis] < from.dims[axis]) break;
      at[axis] = 0;
    }
  }
  return to;
}

}  // namespace

std::vector<std::byte> pack(const Data& d) {
  size_t n = static_cast<size_t>(d.numel()), size = size_of(d.dtype);
  std::vector<std::byte> out(n * size);
  for (size_t i = 0; i < n; ++i) {
    std::byte* p = out.data() + i * size;
    switch (d.dtype) {
      case DType::b8:
      case DType::u8: write(p, static_cast<uint8_t>(d.i[i])); break;
      case DType::i8: write(p, static_cast<int8_t>(d.i[i])); break;
      case DType::i16: write(p, static_cast<int16_t>(d.i[i])); break;
      case DType::i32: write(p, static_cast<int32_t>(d.i[i])); break;
      case DType::i64: write(p, d.i[i]); break;
      case DType::f16: write(p, float_to_f16(static_cast<float>(d.f[i]))); break;
      case DType::bf16: write(p, float_to_bf16(static_cast<float>(d.f[i]))); break;
      case DType::f32: write(p, static_cast<float>(d.f[i])); break;
      default: write(p, d.f[i]); break;
    }
  }
  return out;
}

Data unpack(DType t, Index dims, std::span<const std::byte> bytes) {
  Data d{t, std::move(dims), {}, {}};
  d.allocate();
  const size_t n = static_cast<size_t>(d.numel()), size = size_of(t);
  if (bytes.size() < n * size) fail(Code::internal, "{} elements of {} are more than {} bytes", n, name_of(t), bytes.size());
  for (size_t i = 0; i < n; ++i) {
    const std::byte* p = bytes.data() + i * size;
    switch (t) {
      case DType::b8: d.i[i] = read<uint8_t>(p) != 0; break;
      case DType::u8: d.i[i] = read<uint8_t>(p); break;
      case DType::i8: d.i[i] = read<int8_t>(p); break;
      case DType::i16: d.i[i] = read<int16_t>(p); break;
      case DType::i32: d.i[i] = read<int32_t>(p); break;
      case DType::i64: d.i[i] = read<int64_t>(p); break;
      case DType::f16: d.f[i] = f16_to_float(read<uint16_t>(p)); break;
      case DType::bf16: d.f[i] = bf16_to_float(read<uint16_t>(p)); break;
      case DType::f32: d.f[i] = read<float>(p); break;
      case DType::f64: d.f[i] = read<double>(p); break;
      default: fail(Code::unsupported, "the reference does not read {}", name_of(t));
    }
  }
  return d;
}

namespace {

void evaluate_graph(const Graph& g, std::vector<int64_t>& symbols, std::vector<Data>& values);

// A graph inside a branch or a loop. Its symbols are those of the graph around, by name.
std::vector<Data> evaluate_inner(const Graph& g, const Graph& around, std::span<const int64_t> outer, std::vector<Data> inputs) {
  std::vector<int64_t> symbols;
  for (const Symbol& s : g.symbols) {
    auto found = std::find_if(around.symbols.begin(), around.symbols.end(), [&](const Symbol& x) { return x.name == s.name; });
    symbols.push_back(found != around.symbols.end() ? outer[static_cast<size_t>(found - around.symbols.begin())] : s.opt);
  }
  std::vector<Data> values(g.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[g.inputs[i].value] = std::move(inputs[i]);
  evaluate_graph(g, symbols, values);
  std::vector<Data> out;
  for (const Output& o : g.outputs) {
    if (o.to == Output::To::caller) out.push_back(values[o.value]);
  }
  return out;
}

void evaluate_control(const Graph& g, const Node& node, std::span<const int64_t> symbols, std::vector<Data>& values) {
  const std::vector<GraphRef> graphs = node.attributes.graphs("graphs");
  std::vector<Data> in, out;
  for (ValueId v : node.in) in.push_back(values[v]);
  if (node.op == Op::branch) {
    const bool taken = in[0].i[0] != 0;
    in.erase(in.begin());
    out = evaluate_inner(*graphs[taken ? 0 : 1], g, symbols, std::move(in));
  } else {
    const auto carried = static_cast<size_t>(node.attributes.integer("carried"));
    while (evaluate_inner(*graphs[0], g, symbols, in)[0].i[0] != 0) {
      std::vector<Data> next = evaluate_inner(*graphs[1], g, symbols, in);
      std::move(next.begin(), next.end(), in.begin());
    }
    out.assign(in.begin(), in.begin() + static_cast<ptrdiff_t>(carried));
  }
  for (size_t i = 0; i < node.out.size(); ++i) values[node.out[i]] = std::move(out[i]);
}

// Inputs are in `values`. A node runs when its operands are there and its sizes are known; what a size is read from may stand after nodes that use it.
void evaluate_graph(const Graph& g, std::vector<int64_t>& symbols, std::vector<Data>& values) {
  for (const Weight& w : g.weights) {
    Data d{g.type(w.value).dtype, sizes_of(g.type(w.value).dims, symbols), {}, {}};
    const auto bytes = static_cast<size_t>(d.numel()) * size_of(d.dtype);
    if (w.data == nullptr && d.numel() > 0) fail(Code::invalid_input, "weight \"{}\" has no data", w.name);
    if (w.bytes != 0 && w.bytes < bytes) {
      fail(Code::invalid_input, "weight \"{}\" has {} bytes, its shape needs {}", w.name, w.bytes, bytes);
    }
    values[w.value] = unpack(d.dtype, d.dims, {w.data, bytes});
  }
  const std::vector<uint32_t> reads = read_symbols(g);
  std::vector<bool> known(g.symbols.size()), made(g.values.size(), false);
  for (size_t s = 0; s < known.size(); ++s) known[s] = reads[s] == none_id;
  std::vector<uint32_t> readers(g.values.size(), 0);
  for (const Node& n : g.nodes) {
    for (ValueId v : n.in) ++readers[v];
  }
  for (const Output& o : g.outputs) ++readers[o.value];
  auto read = [&](ValueId v) {
    for (SymbolId s = 0; s < reads.size(); ++s) {
      if (reads[s] == none_id || g.outputs[reads[s]].value != v) continue;
      symbols[s] = values[v].i[0];
      known[s] = true;
      if (symbols[s] < g.symbols[s].min || symbols[s] > g.symbols[s].max) {
        fail(Code::invalid_input, "size {}, which is read from data, is {}, outside {}..{}", g.symbols[s].name, symbols[s], g.symbols[s].min, g.symbols[s].max);
      }
      check_sizes(g, symbols, [&](SymbolId x) { return known[x]; });
    }
  };
  std::vector<NodeId> left(g.nodes.size());
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    std::vector<NodeId> later;
    for (NodeId n : left) {
      const Node& node = g.nodes[n];
      const std::vector<SymbolId> used = used_symbols(g, node);
      const bool ready =
          std::all_of(node.in.begin(), node.in.end(), [&](ValueId v) { return made[v]; }) && std::all_of(used.begin(), used.end(), [&](SymbolId s) { return known[s]; });
      if (!ready) {
        later.push_back(n);
        continue;
      }
      try {
        if (node.op == Op::branch || node.op == Op::loop) {
          evaluate_control(g, node, symbols, values);
        } else {
          evaluate_node(g, node, symbols, values);
        }
      } catch (Error& e) {
        if (e.origin.empty() && node.origin < g.origins.size()) e.origin = g.origins[node.origin].text();
        throw;
      }
      for (ValueId v : node.out) {
        made[v] = true;
        read(v);
      }
      // A value is dropped after its last reader, so that whole models fit.
      for (ValueId v : node.in) {
        if (--readers[v] == 0) values[v] = {};
      }
    }
    if (later.size() == left.size()) fail(Code::internal, "a size is read from what depends on it");
    left = std::move(later);
  }
}

}  // namespace

std::vector<Array> interpret(const Graph& g, std::span<const Array> inputs) {
  std::vector<std::vector<int64_t>> dims;
  for (const Array& a : inputs) dims.push_back(a.dims);
  std::vector<int64_t> symbols = bind_symbols(g, dims);
  std::vector<Data> values(g.values.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Type& type = g.type(g.inputs[i].value);
    if (inputs[i].dtype != type.dtype) {
      fail(Code::invalid_input, "input \"{}\" is {}, the graph takes {}", g.inputs[i].name, name_of(inputs[i].dtype), name_of(type.dtype));
    }
    Data& d = values[g.inputs[i].value];
    d.dtype = type.dtype;
    d.dims = inputs[i].dims;
    if (inputs[i].bytes.size() != static_cast<size_t>(d.numel()) * size_of(type.dtype)) {
      fail(Code::invalid_input, "input \"{}\" has {} bytes, its shape needs {}", g.inputs[i].name, inputs[i].bytes.size(), static_cast<size_t>(d.numel()) * size_of(type.dtype));
    }
    d = unpack(type.dtype, inputs[i].dims, inputs[i].bytes);
    if (!g.inputs[i].order.empty()) d = permuted(d, g.inputs[i].order);
  }
  evaluate_graph(g, symbols, values);
  std::vector<Array> out;
  for (const Output& o : g.outputs) out.push_back({values[o.value].dtype, values[o.value].dims, pack(values[o.value])});
  return out;
}

}  // namespace ingot::ir
