#include "compile/attention_sketch.h"

namespace ingot::compile {

using namespace ir;
using kernels::Role;

backend::Site attention_sketch(const Graph& g, const Node& node, std::vector<std::pair<Role, Type>> more) {
  const AttentionInputs of = attention_inputs(node);
  backend::Attention sketch{g.type(of.query).dtype};
  sketch.d = g.type(of.query).dims.back();
  sketch.e = g.type(of.value).dims.back();
  sketch.batch_rank = g.type(node.out[0]).dims.size() - 2;
  backend::Site site{std::move(sketch)};
  if (of.filled != none_id) more.emplace_back(Role::filled, g.type(of.filled));
  for (const auto& [role, type] : more) site.operands.push_back({role, type.dtype, backend::unplaced(type.dims)});
  return site;
}

}  // namespace ingot::compile
