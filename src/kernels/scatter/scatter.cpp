#include "kernels/definition.h"
#include "kernels/random_case.h"
#include "kernels/scatter/run/scatter_args.h"

namespace ingot::kernels {

namespace {

ScatterArgs::Kind kind_of(const ir::Node& node) {
  using Kind = ScatterArgs::Kind;
  const std::string& kind = node.attributes.string("kind");
  return kind == "set" ? Kind::set : kind == "add" ? Kind::add : kind == "mul" ? Kind::mul : kind == "min" ? Kind::min : Kind::max;
}

// Another step has put the base into the result.
PlainStep plain(const ir::Graph& g, const ir::Node& node) {
  ScatterArgs args;
  args.kind = kind_of(node);
  args.wrap = wraps(node.attributes);
  args.position = static_cast<uint8_t>(node.attributes.integer("position"));
  for (int64_t axis : node.attributes.integers("axes")) args.axes.push_back(static_cast<uint8_t>(axis));
  ir::Dims indices;
  for (size_t i = 2; i < node.in.size(); ++i) indices = ir::broadcast(indices, g.type(node.in[i]).dims, g.symbols);
  PlainStep step{serialise(args), 1, {std::nullopt}};
  step.read_as.resize(node.in.size() - 1, indices);
  return step;
}

PlainStep plain_along(const ir::Graph& g, const ir::Node& node) {
  ScatterArgs args;
  args.kind = kind_of(node);
  args.axes = {static_cast<uint8_t>(node.attributes.integer("axis"))};
  return {serialise(args), 1, {std::nullopt, g.type(node.in[1]).dims}};
}

const char* random_kind(RandomCase& c) { return c.one_of({"set", "add", "mul", "min", "max"}); }

// Indices are 0, 1 or 2.
ir::Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const int64_t rank = 1 + c.below(3), axis = c.below(rank);
  ir::Dims dims = c.dims(rank), updates = dims;
  dims[static_cast<size_t>(axis)] = 3 + c.below(9);
  const ir::Dim count = c.size();
  updates[static_cast<size_t>(axis)] = count;
  const ir::DType type = c.one_of({ir::DType::f32, ir::DType::i64});
  const ir::Handle base = c.input("base", type, dims), index = c.input("index", ir::DType::i64, {count}), with = c.input("updates", type, updates);
  c.output("y", ir::scatter(base, {axis}, {index}, axis, c.below(2) == 0, with, random_kind(c)));
  return c.take();
}

ir::Graph random_case_along(std::mt19937& random) {
  RandomCase c(random);
  const int64_t rank = 1 + c.below(3), axis = c.below(rank);
  ir::Dims dims = c.dims(rank), updates = dims;
  dims[static_cast<size_t>(axis)] = 3 + c.below(9);
  updates[static_cast<size_t>(axis)] = c.size();
  const ir::DType type = c.one_of({ir::DType::f32, ir::DType::f64, ir::DType::i64});
  const ir::Handle base = c.input("base", type, dims), index = c.input("index", ir::DType::i64, updates), with = c.input("updates", type, updates);
  c.output("y", ir::scatter_along(base, axis, index, with, random_kind(c)));
  return c.take();
}

}  // namespace

extern const Definition scatter_definition, scatter_along_definition;
const Definition scatter_definition{"scatter",          {{Role::update}, {Role::index}, {Role::index, any}, {Role::output}}, {ir::Op::scatter}, plain, nullptr, random_case,
                                    {"scatter_atomics"}};
const Definition scatter_along_definition{
    "scatter_along", {{Role::index}, {Role::update}, {Role::output}}, {ir::Op::scatter_along}, plain_along, nullptr, random_case_along, {"scatter_along_atomics"}};

}  // namespace ingot::kernels
