// Functions with regions: sizes read from data, branches and loops.
#include "runtime/routine.h"

#include "ir/compose.h"
#include "lower/outline.h"
#include "plan/regions.h"
#include "runtime/session_test.h"

namespace ingot::runtime {
namespace {

using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Handle;
using ir::Op;
using ir::Output;

Graph with_rows() {
  Graph g;
  g.symbols.push_back({"B", 1, 4, 64});
  return g;
}

Handle input(Graph& g, const char* name, ir::Dims dims, DType dtype = DType::f32) { return {&g, g.add_input(name, {dtype, std::move(dims)})}; }
void give(Graph& g, const Handle& v, const char* name) { g.outputs.push_back({v.id(), name, {}}); }

std::shared_ptr<plan::Plan> compiled(Graph g) {
  std::vector<ir::NamedGraph> functions;
  functions.push_back({"forward", std::move(g)});
  lower::outline(functions);
  EXPECT_TRUE(functions[0].regions);
  auto plan = std::make_shared<plan::Plan>(compile::compile(functions, {}));
  plan::verify(*plan);
  // A plan that is written and read is the same.
  const std::vector<std::byte> file = plan::write(*plan);
  EXPECT_EQ(plan::write(*plan::read(file, nullptr, plan::Trust::data)), file);
  return plan;
}

// [B, 2] -> the first n rows, twice, where n counts the positive elements of the first column; and the sum of all.
Graph positive_rows() {
  Graph g = with_rows();
  Handle x = input(g, "x", {Dim::symbol(0), 2});
  Handle positive = take(x, 1, 0) > 0;
  const Dim n = ir::read_size(sum(cast(positive, DType::i64), {}), x.dim(0));
  give(g, view(x, ir::slice_map(x.dims(), 0, 0, n, 1)) * 2, "rows");
  give(g, sum(x, {}), "sum");
  return g;
}

// Adds 1 to x while its first element is below the limit: [2], [] -> [2], [] (number of iterations).
Graph counting() {
  Graph condition, body, g;
  give(condition, take(input(condition, "x", {2}), 0, 0) < input(condition, "limit", {}), "go");
  input(condition, "turns", {}, DType::i64);
  {
    Handle x = input(body, "x", {2}), limit = input(body, "limit", {}), turns = input(body, "turns", {}, DType::i64);
    static_cast<void>(limit);
    give(body, x + 1, "next");
    give(body, turns + 1, "turns");
  }
  // Inputs that change come first.
  for (Graph* inner : {&condition, &body}) {
    auto at = [&](const char* name) { return std::find_if(inner->inputs.begin(), inner->inputs.end(), [&](const ir::Input& i) { return i.name == name; }); };
    const std::vector<ir::Input> order = {*at("x"), *at("turns"), *at("limit")};
    inner->inputs = order;
  }
  Handle x = input(g, "x", {2}), limit = input(g, "limit", {});
  Handle zero = ir::full(g, {}, 0, DType::i64);
  ir::List graphs = {ir::GraphRef(std::make_shared<const Graph>(condition)), ir::GraphRef(std::make_shared<const Graph>(body))};
  ir::Attributes attributes{{"graphs", graphs}, {"carried", int64_t{2}}};
  const std::vector<ir::ValueId> in = {x.id(), zero.id(), limit.id()};
  const ir::NodeId loop = g.add_node(Op::loop, in, attributes, ir::infer(g, Op::loop, in, attributes));
  give(g, {&g, g.nodes[loop].out[0]}, "x_end");
  give(g, cast({&g, g.nodes[loop].out[1]}, DType::f32), "turns");
  return g;
}

// The sums of the first 1, 2, .. rows of x: [B, 2] -> [B, 2]. Each turn writes one of them.
Graph running_sums() {
  Graph g = with_rows();
  const Handle x = input(g, "x", {Dim::symbol(0), 2});
  const ir::Handles last = ir::repeat(g, x.dim(0), {ir::full(g, {2}, 0, DType::f32), ir::full(g, x.dims(), 0, DType::f32)}, {x},
                                      [](const Handle& turn, const ir::Handles& carried, const ir::Handles& others) {
                                        const Handle sum = carried[0] + ir::gather(others[0], {0}, {turn}, 0, false);
                                        return ir::Handles{sum, ir::scatter(carried[1], {0}, {turn}, 0, false, sum, "set")};
                                      });
  give(g, last[1], "sums");
  return g;
}

TEST(Routine, ASizeIsRead) {
  Session session(std::make_shared<Weights>(compiled(positive_rows()), 1), 0, {1});
  EXPECT_TRUE(session.is_open(0));
  EXPECT_FALSE(session.is_open(1));
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 0; n <= 5; ++n) {
      Tensor x{std::vector<float>(10, 3), {5, 2}};
      for (int64_t i = n; i < 5; ++i) x.data[static_cast<size_t>(2 * i)] = -1;
      HostTensor in = x.host();
      EXPECT_EQ(session.resolve({&in, 1}), (std::vector<std::vector<int64_t>>{{5, 2}, {}}));
      Tensor rows{std::vector<float>(10, -7), {5, 2}}, sum{{0}, {}};
      HostTensor out[] = {rows.host(), sum.host()};
      session.run({&in, 1}, out);
      EXPECT_EQ(session.output_dims(0), (std::vector<int64_t>{n, 2}));
      for (size_t i = 0; i < 10; ++i) EXPECT_EQ(rows.data[i], i < static_cast<size_t>(2 * n) ? 6 : -7) << i;
    }
  }
  // The first region was resolved once, the second once per size.
  EXPECT_EQ(session.resolutions(), 1u + 6u);
}

TEST(Routine, TheCallerGivesMemoryOnceTheSizeIsKnown) {
  Session session(std::make_shared<Weights>(compiled(positive_rows()), 1), 0, {1});
  std::vector<float> made;
  session.set_output_memory([&](size_t output, std::span<const int64_t> dims) {
    EXPECT_EQ(output, 0u);
    made.assign(static_cast<size_t>(dims[0] * dims[1]), -7);
    return reinterpret_cast<std::byte*>(made.data());
  });
  Tensor x{{1, 2, -1, 3, 5, 6}, {3, 2}}, sum{{0}, {}}, none{{}, {0, 0}};
  HostTensor in = x.host(), out[] = {none.host(), sum.host()};
  out[0].data = nullptr;
  session.run({&in, 1}, out);
  EXPECT_EQ(made, (std::vector<float>{2, 4, -2, 6}));
  EXPECT_EQ(sum.data[0], 16);
}

TEST(Routine, LittleMemoryIsRefused) {
  Session session(std::make_shared<Weights>(compiled(positive_rows()), 1), 0, {1});
  Tensor x{{1, 2, 1, 3, 5, 6}, {3, 2}}, sum{{0}, {}}, rows{std::vector<float>(2), {1, 2}};
  HostTensor in = x.host(), out[] = {rows.host(), sum.host()};
  EXPECT_EQ(refused([&] { session.run({&in, 1}, out); }).message, "result \"rows\" needs 24 bytes, and the tensor given for it has 8");
  x.data = {1, 2, -1, 3, -5, 6};
  session.run({&in, 1}, out);
  EXPECT_EQ(rows.data, (std::vector<float>{2, 4}));
}

TEST(Routine, ALoopTakesAsManyTurnsAsTheDataSays) {
  Counting memory;
  Session session(std::make_shared<Weights>(compiled(counting()), 1), 0, {1}, memory);
  auto run = [&](float limit) {
    Tensor x{{0.5f, 10}, {2}}, l{{limit}, {}}, end{{0, 0}, {2}}, turns{{-1}, {}};
    HostTensor in[] = {x.host(), l.host()}, out[] = {end.host(), turns.host()};
    session.run(in, out);
    EXPECT_EQ(end.data[1] - end.data[0], 9.5f);
    EXPECT_EQ(end.data[0], 0.5f + turns.data[0]);
    EXPECT_EQ(x.data[0], 0.5f) << "the loop wrote what it began with";
    return turns.data[0];
  };
  for (float limit : {0.0f, 1.0f, 2.0f, 7.0f, 100.0f}) EXPECT_EQ(run(limit), limit);
  const int before = memory.count;
  EXPECT_EQ(run(31), 31);
  EXPECT_EQ(memory.count, before) << "a run at sizes that it knows allocates";
}

TEST(Routine, ALoopWritesRowsInPlace) {
  const std::shared_ptr<plan::Plan> plan = compiled(running_sums());
  const std::vector<plan::Region>& regions = plan->functions[0].regions;
  const auto loop = std::find_if(regions.begin(), regions.end(), [](const plan::Region& r) { return r.kind == plan::Region::Kind::loop; });
  ASSERT_NE(loop, regions.end());
  ASSERT_EQ(loop->carried.size(), 3u);  // the turn, the sum, the rows
  EXPECT_EQ(loop->calls.size(), 1u) << "sizes say how many turns there are";
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(loop->carried[i].next == loop->carried[i].value, i == 2) << i;
  Session session(std::make_shared<Weights>(plan, 1), 0, {1});
  for (int64_t n : {4, 1, 9}) {
    Tensor x{{}, {n, 2}}, sums{std::vector<float>(static_cast<size_t>(2 * n), -7), {n, 2}};
    std::vector<float> expected;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k : {i + 1, 2 - i}) x.data.push_back(static_cast<float>(k));
      for (int64_t k : {(i + 1) * (i + 2) / 2, 2 * (i + 1) - i * (i + 1) / 2}) expected.push_back(static_cast<float>(k));
    }
    HostTensor in = x.host(), out = sums.host();
    session.run({&in, 1}, {&out, 1});
    EXPECT_EQ(sums.data, expected);
  }
}

TEST(Routine, DamagedWritesInPlace) {
  const std::shared_ptr<plan::Plan> good = compiled(running_sums());
  auto refused_with = [&](const std::function<void(plan::Region&)>& damage) {
    plan::Plan plan = *good;
    for (plan::Region& r : plan.functions[0].regions) {
      if (r.kind == plan::Region::Kind::loop) damage(r);
    }
    try {
      plan::verify(plan);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::format);
      return e.message;
    }
    return std::string("not refused");
  };
  const char* wrong = "does not write what a loop has it write in place, or reads it too";
  EXPECT_NE(refused_with([](plan::Region& r) { r.carried[1].next = r.carried[1].value; }).find(wrong), std::string::npos) << "the body gives a new value";
  EXPECT_NE(refused_with([](plan::Region& r) { r.calls[0].values[3] = r.calls[0].values[2]; }).find(wrong), std::string::npos) << "the body reads it as another operand";
  EXPECT_NE(refused_with([](plan::Region& r) { r.carried.pop_back(); }).find("a value before it is written"), std::string::npos) << "what is not carried";
  EXPECT_NE(refused_with([](plan::Region& r) { r.count = 1000; }).find("a loop names a size that does not exist"), std::string::npos);
  EXPECT_NE(refused_with([](plan::Region& r) { r.count = UINT32_MAX; }).find("a region has 1 calls"), std::string::npos);
  EXPECT_NE(refused_with([](plan::Region& r) { r.condition = 0; }).find("counts turns but is not a loop, or has a condition too"), std::string::npos);
}

TEST(Routine, MemoryThatIsNotThereIsAnErrorAndTheNextRunIsRight) {
  Counting memory;
  Session session(std::make_shared<Weights>(compiled(counting()), 1), 0, {1}, memory);
  Tensor x{{0, 1}, {2}}, l{{3}, {}}, end{{0, 0}, {2}}, turns{{-1}, {}};
  HostTensor in[] = {x.host(), l.host()}, out[] = {end.host(), turns.host()};
  memory.fails = true;
  EXPECT_ANY_THROW(session.run(in, out));
  memory.fails = false;
  session.run(in, out);
  EXPECT_EQ(turns.data[0], 3);
}

// With any number of the regions' description changed, the plan is refused or runs inside its memory (checked by sanitizers).
TEST(Routine, DamagedRegions) {
  const std::shared_ptr<plan::Plan> good = compiled(positive_rows());
  size_t refused = 0, ran = 0;
  auto attempt = [&](const std::function<void(plan::Function&)>& damage) {
    auto plan = std::make_shared<plan::Plan>(*good);
    damage(plan->functions[0]);
    for (const plan::Region& r : plan->functions[0].regions) {
      if (r.kind == plan::Region::Kind::loop) return;  // it may never end
    }
    try {
      plan::verify(*plan);
      Session session(std::make_shared<Weights>(plan, 1), 0, {1});
      Tensor x{{1, 2, -1, 3, 5, 6}, {3, 2}}, sum{{0}, {}}, rows{std::vector<float>(6), {3, 2}};
      HostTensor in = x.host(), out[] = {rows.host(), sum.host()};
      session.run({&in, 1}, out);
      ++ran;
    } catch (const Error& e) {
      EXPECT_NE(e.code, Code::internal) << e.message;
      ++refused;
    }
  };
  const plan::Function& f = good->functions[0];
  for (uint32_t wrong : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 100u, UINT32_MAX}) {
    for (size_t r = 0; r < f.regions.size(); ++r) {
      attempt([&](plan::Function& g) { g.regions[r].kind = static_cast<plan::Region::Kind>(wrong % 3); });
      attempt([&](plan::Function& g) { g.regions[r].condition = wrong; });
      attempt([&](plan::Function& g) { g.regions.erase(g.regions.begin() + static_cast<ptrdiff_t>(r)); });
      for (size_t c = 0; c < f.regions[r].calls.size(); ++c) {
        attempt([&](plan::Function& g) { g.regions[r].calls[c].function = wrong; });
        attempt([&](plan::Function& g) { g.regions[r].calls.push_back(g.regions[r].calls[c]); });
        for (size_t i = 0; i < f.regions[r].calls[c].values.size(); ++i) attempt([&](plan::Function& g) { g.regions[r].calls[c].values[i] = wrong; });
        for (size_t i = 0; i < f.regions[r].calls[c].symbols.size(); ++i) attempt([&](plan::Function& g) { g.regions[r].calls[c].symbols[i] = wrong; });
      }
      for (size_t x = 0; x < f.regions[r].reads.size(); ++x) {
        attempt([&](plan::Function& g) { g.regions[r].reads[x].value = wrong; });
        attempt([&](plan::Function& g) { g.regions[r].reads[x].symbol = wrong; });
        attempt([&](plan::Function& g) { g.regions[r].reads[x].bound = wrong; });
        attempt([&](plan::Function& g) { g.regions[r].reads[x].origin = wrong; });
      }
    }
    for (size_t v = 0; v < f.values.size(); ++v) {
      attempt([&](plan::Function& g) { g.values[v].dtype = static_cast<DType>(wrong % ir::dtype_count); });
      attempt([&](plan::Function& g) { g.values[v].dims.push_back(wrong); });
      for (size_t d = 0; d < f.values[v].dims.size(); ++d) attempt([&](plan::Function& g) { g.values[v].dims[d] = wrong; });
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(ran, 10u);
}

TEST(Routine, KnownAfter) {
  const std::shared_ptr<plan::Plan> plan = compiled(positive_rows());
  const plan::Function& f = plan->functions[0];
  const std::vector<uint32_t> known = plan::known_after(f);
  EXPECT_EQ(known[f.bindings[0].dims[0]], 0u);
  EXPECT_EQ(known[f.bindings[1].dims[0]], 1u);
}

}  // namespace
}  // namespace ingot::runtime
