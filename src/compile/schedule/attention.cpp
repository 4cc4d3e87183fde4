#include "base/error.h"
#include "compile/schedule/scheduler.h"
#include "compile/storage/paged_keys.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;
using kernels::Role;

namespace {

// Operands with the batch's axes.
bool has_batch(Role role) { return role == Role::query || role == Role::key || role == Role::value; }

}  // namespace

// A mask is a body: the step has what it loads.
void Scheduler::attention(NodeId n) {
  const Node& node = g_.nodes[n];
  const AttentionInputs of = attention_inputs(node);
  const Dims& out = g_.type(node.out[0]).dims;
  Dims batch(out.begin(), out.end() - 2);
  const std::optional<PagedKeys> pages = paged_keys(g_, node, c_.backend);
  auto input = [&](Role role) {
    switch (role) {
      case Role::query: return of.query;
      case Role::key: return pages ? pages->key.pool : of.key;
      case Role::value: return pages ? pages->value.pool : of.value;
      case Role::block_table: return pages ? pages->table : none_id;
      case Role::mask: return of.mask;
      case Role::filled: return of.filled;
      default: return none_id;
    }
  };
  const Dims &query = g_.type(of.query).dims, &key = g_.type(of.key).dims;
  backend::Attention site{g_.type(of.query).dtype};
  site.scale = node.attributes.number("scale");
  site.causal = node.attributes.boolean("causal");
  site.batch_rank = batch.size();
  site.s = query[query.size() - 2];
  site.t = key[key.size() - 2];
  site.d = query.back();
  site.e = g_.type(of.value).dims.back();
  StepOperands operands;
  // A pool with the batch's axes; the axis of sequences is that of pages. False if something is needed first.
  auto add_pool = [&](Role role, const Pool& pool) {
    auto place = s_.require(pool.pool);
    if (!place) return need(place.missing()), false;
    std::optional<StridedLayout> layout = through_view(place->layout, pool.view);
    if (!layout) return need(pool.pool), false;
    Dims axes = batch;
    axes[0] = layout->dims[0];
    place->layout = std::move(*layout);
    operands.add(role, with_batch(std::move(*place), axes));
    return true;
  };
  std::string label = "attention";
  WrittenBody mask;
  for (const kernels::RoleOf& of_step : kernels::definition_of(node.op)->operands) {
    const Role role = of_step.role;
    if (pages && role == Role::key) {
      if (!add_pool(role, pages->key)) return;
      continue;
    }
    if (pages && role == Role::value) {
      if (!add_pool(role, pages->value)) return;
      continue;
    }
    if (pages && role == Role::scale) {
      if (pages->key_scale && (!add_pool(role, *pages->key_scale) || !add_pool(role, *pages->value_scale))) return;
      continue;
    }
    const ValueId v = input(role);
    if (v == none_id) continue;
    if (role == Role::mask) {
      Dims scores = batch;
      scores.push_back(site.s);
      scores.push_back(site.t);
      auto body = write_mask(s_, v, scores, g_.type(node.out[0]).dtype == DType::f64 ? DType::f64 : DType::f32);
      if (!body) return need(body.missing());
      mask = std::move(*body);
      label += mask.label == "copy" ? " + mask" : " + mask(" + mask.label + ")";
      operands.add(Role::mask, mask.operands);
      continue;
    }
    auto place = s_.require(v);
    if (!place) return need(place.missing());
    operands.add(role, has_batch(role) ? with_batch(std::move(*place), batch) : std::move(*place));
  }
  if (pages) label += pages->key_scale ? ", keys in pages with scales" : ", keys in pages";
  if (of.filled != none_id) label += ", filled keys";
  if (site.causal) label += ", causal";
  operands.add(Role::output, with_batch(s_.places[node.out[0]], batch));
  Decision d = choose({std::move(site), of.mask == none_id ? nullptr : &mask.body, described(operands)});
  if (d.obstacle && d.obstacle->kind == backend::Obstacle::Kind::operand) {
    if (const ValueId v = input(d.obstacle->operand); v != none_id && !s_.stored[v]) return need(v);
  }
  if (!d.choice) fail(Code::unsupported, "no backend has a kernel for attention");
  push(std::move(*d.choice), std::move(operands), 1, std::move(label), node.origin);
  out_.steps.back().results = {itself(node.out[0])};
}

}  // namespace ingot::compile
