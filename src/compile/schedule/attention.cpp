#include "base/error.h"
#include "compile/schedule/scheduler.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;
using kernels::Role;

namespace {

// Operands with the batch's axes.
bool has_batch(Role role) { return role == Role::query || role == Role::key || role == Role::value; }

}  // namespace

// The node's inputs have the definition's roles, in its order. A mask is a body: the step has what it loads.
void Scheduler::attention(NodeId n) {
  const Node& node = g_.nodes[n];
  const std::vector<kernels::RoleOf>& roles = kernels::definition_of(node.op)->operands;
  const Dims& out = g_.type(node.out[0]).dims;
  Dims batch(out.begin(), out.end() - 2);
  auto input = [&](Role role) {
    size_t i = 0;
    while (i < node.in.size() && roles[i].role != role) ++i;
    return i < node.in.size() ? node.in[i] : none_id;
  };
  const Dims &query = g_.type(input(Role::query)).dims, &key = g_.type(input(Role::key)).dims;
  backend::Attention site{g_.type(input(Role::query)).dtype};
  site.scale = node.attributes.number("scale");
  site.causal = node.attributes.boolean("causal");
  site.batch_rank = batch.size();
  site.s = query[query.size() - 2];
  site.t = key[key.size() - 2];
  site.d = query.back();
  site.e = g_.type(input(Role::value)).dims.back();
  StepOperands operands;
  std::string label = "attention";
  WrittenBody mask;
  for (size_t i = 0; i < node.in.size(); ++i) {
    if (roles[i].role == Role::mask) {
      Dims scores = batch;
      scores.push_back(site.s);
      scores.push_back(site.t);
      auto body = write_mask(s_, node.in[i], scores, g_.type(node.out[0]).dtype == DType::f64 ? DType::f64 : DType::f32);
      if (!body) return need(body.missing());
      mask = std::move(*body);
      label += mask.label == "copy" ? " + mask" : " + mask(" + mask.label + ")";
      operands.add(Role::mask, mask.operands);
      continue;
    }
    auto place = s_.require(node.in[i]);
    if (!place) return need(place.missing());
    operands.add(roles[i].role, has_batch(roles[i].role) ? with_batch(std::move(*place), batch) : std::move(*place));
  }
  if (site.causal) label += ", causal";
  operands.add(Role::output, with_batch(s_.places[node.out[0]], batch));
  Decision d = choose({std::move(site), input(Role::mask) == none_id ? nullptr : &mask.body, described(operands)});
  if (d.obstacle && d.obstacle->kind == backend::Obstacle::Kind::operand) {
    if (const ValueId v = input(d.obstacle->operand); v != none_id && !s_.stored[v]) return need(v);
  }
  if (!d.choice) fail(Code::unsupported, "no backend has a kernel for attention");
  push(std::move(*d.choice), std::move(operands), 1, std::move(label), node.origin);
  out_.steps.back().results = {itself(node.out[0])};
}

}  // namespace ingot::compile
