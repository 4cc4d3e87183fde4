// A plan that is written and read is the same; a damaged one is refused.
#include "plan/plan.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/hash.h"
#include "plan/describe.h"
#include "plan/file.h"
#include "plan_generated.h"

namespace ingot::plan {
namespace {

// A folder of this test for the records of written device code.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ingot-XXXXXX").string();
    path = ::mkdtemp(name.data());
    ::setenv("INGOT_CACHE_DIR", path.c_str(), 1);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
} const own_folder;

// A plan with one or two of everything that a plan can hold.
Plan sample() {
  using Op = SizeInstruction::Op;
  static const float numbers[] = {1, 2, 3, 4, 5, 6};
  Plan p;
  Function f;
  f.name = "forward";
  f.symbols = {{"B", 1, 4, 64}, {"S", 0, 3, INT64_MAX}};
  f.sizes.code = {{Op::constant, 0, 0, 3}, {Op::symbol, 0},      {Op::symbol, 1},         {Op::add, 1, 2},        {Op::sub, 3, 0},
                  {Op::mul, 4, 3},         {Op::floordiv, 5, 0}, {Op::constant, 0, 0, 0}, {Op::constant, 0, 0, 1}};
  f.bindings = {{"x", DType::f32, {1, 0}, {1, 0}, Binding::Kind::input}, {"ids", DType::i64, {2}, {}, Binding::Kind::input}, {"y", DType::f16, {1, 0}, {}, Binding::Kind::output}};
  Program program;
  program.buffers = {{Buffer::Kind::binding, 0, 5}, {Buffer::Kind::weight, 1, 5}, {Buffer::Kind::arena, 0, 5, 0, 1}, {Buffer::Kind::derived, 0, 5}, {Buffer::Kind::binding, 2, 5}};
  OperandView view{0, DType::f32, 7, {1, 0}, {0, 8}};
  auto of = [&](BufferId b) {
    OperandView v = view;
    v.buffer = b;
    return v;
  };
  program.steps = {{"matmul", {of(0), of(3), of(2)}, {1, 0, 0}, {std::byte{1}, std::byte{0xff}}, 0, "matmul + bias", 1},
                   {"fused", {of(2), of(1), of(4)}, {}, {}, UINT32_MAX, "add", 1}};
  f.programs = {program};
  f.checks = {{3, 5, false, 1, "the sum is at most the product"}, {1, 1, true, UINT32_MAX, "B is B"}};
  p.functions = {f};
  Function prepare;
  prepare.name = "prepare";
  prepare.sizes.code = {{Op::constant, 0, 0, 0}, {Op::constant, 0, 0, 6}, {Op::constant, 0, 0, 1}};
  Program packing;
  packing.buffers = {{Buffer::Kind::weight, 0, 1}, {Buffer::Kind::derived, 0, 1}};
  packing.steps = {{"matmul_pack", {{0, DType::f32, 0, {1}, {2}}, {1, DType::f32, 0, {1}, {2}}}, {1}, {}, UINT32_MAX, "pack", 1}};
  prepare.programs = {packing};
  auto bytes = reinterpret_cast<const std::byte*>(numbers);
  p.weights = {{"a", DType::f32, {2, 3}, {1, 0}, "", Weight::Source::embedded, bytes, 24, nullptr},
               {"b", DType::f32, {3}, {}, "", Weight::Source::embedded, bytes + 12, 12, nullptr},
               {"tied", DType::f32, {2, 3}, {1, 0}, "a", Weight::Source::embedded, bytes, 24, nullptr},
               {"empty", DType::i8, {0, 7}, {}, "", Weight::Source::embedded, nullptr, 0, nullptr}};
  p.targets = {{Target(),
                prepare,
                {{"a, packed", 64}},
                {{DeviceCode::Form::portable, 90, {"one", "two"}, {std::byte{7}, std::byte{0}}}},
                {{"GPU, L 1", "a", "l 3"}, {"GPU, L 1", "b", "l 0"}}}};
  p.origins = {{"model.py", "y = x @ w", "layers.0", "aten.mm.default", 12}, {"", "", "", "", 0}};
  p.functions[0].graph = "ingot-graph 1\n";
  p.signature = "{\"in\": \"\xc3\xa9\"}";
  p.provenance = {{"producer", "a test"}, {"target", "cpu"}};
  return p;
}

std::vector<std::byte> bytes_of(const Plan& p) { return write(p); }

// The result of read() on these bytes: the plan's description, or the error's code and text.
std::string outcome_of(std::span<const std::byte> bytes) {
  try {
    return describe(*read(bytes, nullptr));
  } catch (const Error& e) {
    EXPECT_TRUE(e.code == Code::format || e.code == Code::version) << e.message;
    EXPECT_FALSE(e.remedy.empty());
    return e.message;
  }
}

TEST(Plan, ReadBackIsWhatWasWritten) {
  Plan p = sample();
  std::vector<std::byte> bytes = bytes_of(p);
  auto back = read(bytes, nullptr);
  EXPECT_EQ(describe(*back), describe(p));
  EXPECT_EQ(bytes_of(*back), bytes);  // including what describe() leaves out
  EXPECT_EQ(bytes_of(sample()), bytes);
  const Function& f = back->functions[0];
  EXPECT_EQ(f.programs[0].steps[0].constants, p.functions[0].programs[0].steps[0].constants);
  const DeviceCode& code = back->targets[0].code[0];
  EXPECT_EQ(code.form, DeviceCode::Form::portable);
  EXPECT_EQ(code.architecture, 90u);
  EXPECT_EQ(code.kernels, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(code.image, p.targets[0].code[0].image);
  EXPECT_EQ(f.checks[0].why, "the sum is at most the product");
  EXPECT_EQ(f.bindings[0].order, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(back->weights[2].order, (std::vector<uint8_t>{1, 0}));
  EXPECT_TRUE(back->weights[1].order.empty());
  EXPECT_EQ(back->functions[0].graph, p.functions[0].graph);
  EXPECT_EQ(std::memcmp(back->weights[1].data, p.weights[1].data, 12), 0);
  EXPECT_EQ(back->weights[2].data, back->weights[0].data);  // tied weights share their bytes
  EXPECT_EQ(reinterpret_cast<uintptr_t>(back->weights[0].data) % 64, reinterpret_cast<uintptr_t>(bytes.data()) % 64);
  EXPECT_NO_THROW(verify_content(*back));
}

TEST(Plan, DescribedForPeople) {
  std::string text = describe(sample());
  for (const char* part :
       {R"("name": "x", "dtype": "float32", "dims": ["B", 3])", R"("name": "B", "min": 1, "opt": 4, "max": 64)", R"("label": "matmul + bias")", R"("origin": "layers.0")",
        R"x("bytes": "(B + S - 3)*(B + S)", "first": 0, "last": 1)x", R"("tied_to": "a")", R"("name": "a", "dtype": "float32", "dims": [2, 3], "order": [1, 0])",
        R"("target": "cpu")", R"("timings": [{"machine": "GPU, L 1", "problem": "a", "choice": "l 3"}, {)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(Plan, WhatWasTimed) {
  Plan p = sample();
  EXPECT_EQ(read(bytes_of(p), nullptr)->targets[0].timings, p.targets[0].timings);
  p.targets[0].timings.clear();
  EXPECT_TRUE(read(bytes_of(p), nullptr)->targets[0].timings.empty());
  const std::string damaged = "the plan is damaged: what was timed for cpu is not in order";
  for (const std::vector<Timing>& bad : {std::vector<Timing>{{"", "a", "x"}},
                                         {{"m", "", "x"}},
                                         {{"m", "a", ""}},
                                         {{"m", "a\n", "x"}},
                                         {{"m", "a", std::string(1001, 'x')}},
                                         {{"m", "b", "x"}, {"m", "a", "x"}},
                                         {{"m", "a", "x"}, {"m", "a", "y"}},
                                         {{"n", "a", "x"}, {"m", "b", "x"}}}) {
    p.targets[0].timings = bad;
    EXPECT_EQ(outcome_of(bytes_of(p)), damaged);
  }
}

TEST(Plan, CutOffAtEveryLength) {
  std::vector<std::byte> bytes = bytes_of(sample());
  for (size_t n = 0; n < bytes.size(); n += n < 5000 ? 1 : 61) {
    std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<long>(n));  // its own memory, so that reading past its end is detected
    std::string said = outcome_of(part);
    ASSERT_TRUE(said.starts_with(n < sizeof(Header) ? "this is not a plan: " : "the plan is cut off: ")) << n << ": " << said;
  }
}

TEST(Plan, EveryFlippedByteBeforeTheWeightsIsSeen) {
  const std::vector<std::byte> good = bytes_of(sample());
  Header h;
  std::memcpy(&h, good.data(), sizeof h);
  for (size_t at = 0; at < sizeof h + h.metadata_bytes; ++at) {
    std::vector<std::byte> bytes = good;
    bytes[at] ^= std::byte{0x10};
    std::string said = outcome_of(bytes);
    ASSERT_FALSE(said.starts_with("{")) << "byte " << at;
  }
}

TEST(Plan, EveryFlippedByteOfAWeightIsSeenByVerify) {
  const std::vector<std::byte> good = bytes_of(sample());
  Header h;
  std::memcpy(&h, good.data(), sizeof h);
  for (size_t at : {0, 1, 23, 64, 75}) {  // a: 24 bytes, then b on the next line of 64
    std::vector<std::byte> bytes = good;
    bytes[h.weights_offset() + at] ^= std::byte{1};
    EXPECT_THROW(verify_content(*read(bytes, nullptr)), Error) << at;
  }
}

// An attacker can compute matching checksums, so the content must be checked too.
TEST(Plan, DamageWithFittingChecksumsNeverLeavesThePlan) {
  const std::vector<std::byte> good = bytes_of(sample());
  Header start;
  std::memcpy(&start, good.data(), sizeof start);
  size_t refused = 0;
  for (size_t at = 0; at < start.metadata_bytes; ++at) {
    for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> bytes = good;
      bytes[sizeof start + at] = static_cast<std::byte>(value);
      Header h = start;
      h.metadata_hash = hash128(std::span(bytes).subspan(sizeof h, h.metadata_bytes));
      h.header_hash = header_hash(h);
      std::memcpy(bytes.data(), &h, sizeof h);
      refused += !outcome_of(bytes).starts_with("{");
    }
  }
  EXPECT_GT(refused, start.metadata_bytes);  // most offsets and indices matter
}

TEST(Plan, SectionsOutsideTheFileAreRefused) {
  const std::vector<std::byte> good = bytes_of(sample());
  for (uint64_t Header::* field : {&Header::metadata_bytes, &Header::weights_bytes}) {
    for (uint64_t value : {uint64_t{good.size() + 1}, uint64_t{1} << 63, UINT64_MAX}) {
      std::vector<std::byte> bytes = good;
      Header h;
      std::memcpy(&h, bytes.data(), sizeof h);
      h.*field = value;
      h.header_hash = header_hash(h);
      std::memcpy(bytes.data(), &h, sizeof h);
      EXPECT_TRUE(outcome_of(bytes).starts_with("the plan is cut off: ")) << outcome_of(bytes);
    }
  }
}

TEST(Plan, WhatCannotBeRunIsRefused) {
  std::pair<const char*, std::function<void(Plan&)>> damages[] = {
      {"the plan has no function", [](Plan& p) { p.functions.clear(); }},
      {"a binding names a size that does not exist", [](Plan& p) { p.functions[0].bindings[0].dims[0] = 9; }},
      {"the order of a binding is not a permutation", [](Plan& p) { p.functions[0].bindings[0].order.pop_back(); }},
      {"the order of a binding is not a permutation", [](Plan& p) { p.functions[0].bindings[0].order = {1, 1}; }},
      {"the order of a binding is not a permutation", [](Plan& p) { p.functions[0].bindings[0].order = {2, 1}; }},
      {"the order of a binding is not a permutation", [](Plan& p) { p.functions[0].bindings[2].order = {1, 0}; }},
      {"the plan names an unknown dtype (10)", [](Plan& p) { p.functions[0].bindings[0].dtype = DType::c64; }},
      {"the plan names an unknown dtype (13)", [](Plan& p) { p.functions[0].bindings[0].dtype = DType::u16; }},
      {"size B has an impossible range", [](Plan& p) { p.functions[0].symbols[0].opt = 65; }},
      {"a buffer names what does not exist", [](Plan& p) { p.functions[0].programs[0].buffers[1].index = 4; }},
      {"a buffer names what does not exist", [](Plan& p) { p.functions[0].programs[0].buffers[3].index = 1; }},
      {"a buffer has an impossible life", [](Plan& p) { p.functions[0].programs[0].buffers[2].last = 2; }},
      {"a step writes nothing", [](Plan& p) { p.functions[0].programs[0].steps[0].writes = 0; }},
      {"a step writes nothing", [](Plan& p) { p.functions[0].programs[0].steps[0].writes = 4; }},
      {"a step names a buffer that does not exist", [](Plan& p) { p.functions[0].programs[0].steps[0].operands[0].buffer = 5; }},
      {"an operand has an impossible rank", [](Plan& p) { p.functions[0].programs[0].steps[0].operands[0].strides.pop_back(); }},
      {"a step uses a buffer outside its life", [](Plan& p) { p.functions[0].programs[0].buffers[2].last = 0; }},
      {"a step writes what is read-only", [](Plan& p) { p.functions[0].programs[0].steps[0].operands[2].buffer = 1; }},
      {"a step writes what is read-only", [](Plan& p) { p.functions[0].programs[0].steps[0].operands[2].buffer = 0; }},
      {"a step writes what is read-only", [](Plan& p) { p.functions[0].programs[0].steps[0].operands[2].buffer = 3; }},
      {"a step names an origin that does not exist", [](Plan& p) { p.functions[0].programs[0].steps[0].origin = 2; }},
      {"a check names a size that does not exist", [](Plan& p) { p.functions[0].checks[0].left = 9; }},
      {"the plan's prepare function has bindings", [](Plan& p) { p.targets[0].prepare.bindings.push_back({"x", DType::f32, {}, {}, Binding::Kind::input}); }},
      {"the plan is for no device", [](Plan& p) { p.targets.clear(); }},
      {"has 1 programs for 2 targets", [](Plan& p) { p.targets.push_back(p.targets[0]); }},
      {"the plan's prepare function has 0 programs", [](Plan& p) { p.targets[0].prepare.programs.clear(); }},
      {"size 3 reads a size that comes later", [](Plan& p) { p.functions[0].sizes.code[3].b = 3; }},
      {"weight \"b\" of the plan has 12 bytes, its sizes need 16", [](Plan& p) { p.weights[1].dims[0] = 4; }},
      {"weight \"b\" of the plan has impossible sizes", [](Plan& p) { p.weights[1].dims = {-3}; }},
      {"weight \"b\" of the plan has an impossible rank", [](Plan& p) { p.weights[1].dims.assign(65, 1); }},
      {"the order of weight \"a\" of the plan is not a permutation of its axes", [](Plan& p) { p.weights[0].order = {1, 1}; }},
      {"the order of weight \"b\" of the plan is not a permutation of its axes", [](Plan& p) { p.weights[1].order = {1, 0}; }},
      {"weight \"b\" of the plan has impossible sizes", [](Plan& p) { p.weights[1].dims = {INT64_MAX, 3}; }},
      {"a derived weight of the plan has an impossible size", [](Plan& p) { p.targets[0].derived[0].bytes = uint64_t{1} << 62; }},
  };
  for (const auto& [text, damage] : damages) {
    Plan p = sample();
    damage(p);
    std::string said = outcome_of(bytes_of(p));
    EXPECT_NE(said.find(text), std::string::npos) << text << ", not: " << said;
  }
}

TEST(Plan, WrittenWithoutValues) {
  Plan p = sample();
  std::vector<std::byte> bytes = write(p, Values::left_out);
  EXPECT_LT(bytes.size(), bytes_of(p).size());
  auto back = read(bytes, nullptr);
  ASSERT_EQ(back->weights.size(), p.weights.size());
  for (const Weight& w : back->weights) {
    EXPECT_EQ(w.source, Weight::Source::host);
    EXPECT_EQ(w.data, nullptr);
  }
  EXPECT_EQ(back->weights[0].bytes, 24u);
  EXPECT_NO_THROW(verify_content(*back));
  EXPECT_THROW(write(*back), Error);  // there is nothing to embed
  float other[] = {1, 2, 3, 4, 5, 7};
  p.weights[0].data = p.weights[2].data = reinterpret_cast<const std::byte*>(other);
  EXPECT_NE(write(p, Values::left_out), bytes);  // the hash of what was left out
}

TEST(Plan, AnUnknownSourceOfAWeightIsRefused) {
  Plan p = sample();
  p.weights[1].source = Weight::Source::external;
  EXPECT_EQ(outcome_of(bytes_of(p)), "weight \"b\" of the plan comes from an unknown source");
}

// The bytes with another header, sealed.
std::vector<std::byte> with_header(std::vector<std::byte> bytes, const std::function<void(Header&)>& change) {
  Header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  change(h);
  h.metadata_hash = hash128(std::span(bytes).subspan(sizeof h, h.metadata_bytes));
  h.header_hash = header_hash(h);
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}

// For example an archive, which another reader would look for at the end of the file.
TEST(Plan, NothingIsBehindTheEndOrBetweenTheSections) {
  for (Values values : {Values::embedded, Values::left_out}) {
    const std::vector<std::byte> good = write(sample(), values);
    for (size_t more : {1, 64, 4096, 100000}) {
      std::vector<std::byte> bytes = good;
      bytes.resize(good.size() + more);
      EXPECT_EQ(outcome_of(bytes), fmt::format("there is something after the end of the plan: it ends at byte {}, the file has {}", good.size(), bytes.size()));
    }
  }
  std::vector<std::byte> good = bytes_of(sample()), bytes = good;
  bytes.resize(good.size() + 64);
  EXPECT_EQ(outcome_of(with_header(bytes, [](Header& h) { h.weights_bytes += 64; })),
            fmt::format("the plan is damaged: its weights end at byte 128 of their section, which has 192"));
  for (size_t k = 0; k < std::size(Header().reserved); ++k)
    EXPECT_EQ(outcome_of(with_header(good, [&](Header& h) { h.reserved[k] = 1; })), "the plan is damaged: there is something where nothing belongs");
  Header h;
  std::memcpy(&h, good.data(), sizeof h);
  for (size_t at : {sizeof h + h.metadata_bytes, h.weights_offset() - 1}) {
    bytes = good;
    bytes[at] = std::byte{'P'};
    EXPECT_EQ(outcome_of(bytes), "the plan is damaged: there is something where nothing belongs");
  }
  for (size_t at : {24, 63, 76, 127}) {  // after a weight: checked when weights are
    bytes = good;
    bytes[h.weights_offset() + at] = std::byte{'P'};
    EXPECT_TRUE(outcome_of(bytes).starts_with("{"));
    EXPECT_THROW(read(bytes, nullptr, Trust::data), Error);
  }
}

TEST(Plan, TextsAreUtf8) {
  const std::pair<const char*, std::function<void(Plan&, std::string)>> places[] = {
      {"the name of a function", [](Plan& p, std::string t) { p.functions[0].name = t; }},
      {"the name of a size", [](Plan& p, std::string t) { p.functions[0].symbols[0].name = t; }},
      {"the name of a binding", [](Plan& p, std::string t) { p.functions[0].bindings[0].name = t; }},
      {"a graph", [](Plan& p, std::string t) { p.functions[0].graph = t; }},
      {"the reason of a check", [](Plan& p, std::string t) { p.functions[0].checks[0].why = t; }},
      {"the kernel of a step", [](Plan& p, std::string t) { p.functions[0].programs[0].steps[0].kernel = t; }},
      {"an alternative kernel of a step", [](Plan& p, std::string t) { p.functions[0].programs[0].steps[0].alternatives = {t}; }},
      {"the label of a step", [](Plan& p, std::string t) { p.functions[0].programs[0].steps[0].label = t; }},
      {"the name of a weight", [](Plan& p, std::string t) { p.weights[0].name = t; }},
      {"the name of a derived weight", [](Plan& p, std::string t) { p.targets[0].derived[0].name = t; }},
      {"the name of a kernel", [](Plan& p, std::string t) { p.targets[0].code[0].kernels[0] = t; }},
      {"an origin", [](Plan& p, std::string t) { p.origins[0].code = t; }},
      {"the signature", [](Plan& p, std::string t) { p.signature = t; }},
      {"the provenance", [](Plan& p, std::string t) { p.provenance[0].second = t; }},
  };
  for (const auto& [what, put] : places) {
    for (const std::string& text : {std::string("ab\xff"), std::string("ab\0c", 4), std::string("ab\xed\xa0\x80")}) {
      Plan p = sample();
      put(p, text);
      EXPECT_EQ(outcome_of(bytes_of(p)), fmt::format("the plan is damaged: {} is not UTF-8 text at its byte 2", what));
    }
  }
}

TEST(Plan, NamesHaveNoControlCharacters) {
  Plan p = sample();
  p.functions[0].bindings[2].name = "y\x1b[2J";
  EXPECT_EQ(outcome_of(bytes_of(p)), "the plan is damaged: the name of a binding has control characters");
  p = sample();
  p.origins[0].code = "\ty = x @ w";  // the user's line is unchanged
  EXPECT_TRUE(outcome_of(bytes_of(p)).starts_with("{"));
}

// If many entries share one text, it is many texts in memory: a small file could exhaust it.
TEST(Plan, EntriesThatLieOverOneAnotherAreRefused) {
  flatbuffers::FlatBufferBuilder b;
  auto text = b.CreateString(std::string(100000, 'x'));
  std::vector<flatbuffers::Offset<fb::Function>> functions;
  for (int i = 0; i < 10000; ++i) functions.push_back(fb::CreateFunction(b, 0, 0, 0, 0, 0, text));
  b.Finish(fb::CreatePlan(b, b.CreateVector(functions)));
  std::vector<std::byte> bytes((sizeof(Header) + b.GetSize() + page - 1) / page * page);
  std::memcpy(bytes.data() + sizeof(Header), b.GetBufferPointer(), b.GetSize());
  auto made = with_header(bytes, [&](Header& h) {
    h = {};
    h.magic = file_magic;
    h.major = format_major;
    h.metadata_bytes = b.GetSize();
  });
  EXPECT_EQ(outcome_of(made), "the plan is damaged: entries of its metadata overlap");
}

// The metadata of the smallest plan, as a later build with one more field would write it.
std::vector<std::byte> with_a_field_more() {
  flatbuffers::FlatBufferBuilder b;
  const auto program = fb::CreateProgram(b);
  const auto function = fb::CreateFunction(b, b.CreateString("forward"), 0, 0, 0, 0, 0, b.CreateVector(&program, 1));
  const auto target = fb::CreateTarget(b, b.CreateString("cpu"), function);
  const auto functions = b.CreateVector(&function, 1);
  const auto targets = b.CreateVector(&target, 1);
  const auto start = b.StartTable();
  b.AddOffset(fb::Plan::VT_FUNCTIONS, functions);
  b.AddOffset(fb::Plan::VT_TARGETS, targets);
  constexpr flatbuffers::voffset_t unknown = fb::Plan::VT_PROVENANCE + 2;
  b.AddElement<uint64_t>(unknown, 7, 0);
  b.Finish(flatbuffers::Offset<fb::Plan>(b.EndTable(start)));
  std::vector<std::byte> bytes((sizeof(Header) + b.GetSize() + page - 1) / page * page);
  std::memcpy(bytes.data() + sizeof(Header), b.GetBufferPointer(), b.GetSize());
  return with_header(bytes, [&](Header& h) {
    h = {};
    h.magic = file_magic;
    h.major = format_major;
    h.programs = program_revision;
    h.metadata_bytes = b.GetSize();
  });
}

TEST(Plan, AFieldOfALaterBuildIsIgnored) {
  EXPECT_TRUE(outcome_of(with_a_field_more()).starts_with("{"));
  EXPECT_FALSE(read(with_a_field_more(), nullptr)->outdated);
}

TEST(Plan, OnlyReadersThatKnowAllThatIsInAFileReadIt) {
  const std::vector<std::byte> good = bytes_of(sample());
  for (auto [major, minor] : {std::pair<uint16_t, uint16_t>{1, 1}, {1, 65535}, {2, 0}, {0, 0}}) {
    EXPECT_EQ(outcome_of(with_header(good, [&](Header& h) { h.major = major, h.minor = minor; })),
              fmt::format("the plan has format {}.{}, this ingot reads formats 1.0 to 1.0", major, minor));
  }
  EXPECT_EQ(outcome_of(with_header(good, [](Header& h) { h.magic = magic_before_1, h.major = 15; })),
            "the plan has format 15, from before version 1.0 of the format, and is no longer read");
}

TEST(Plan, ProgramsOfAnotherRevisionAreNotThoseOfThisBuild) {
  const std::vector<std::byte> good = bytes_of(sample());
  EXPECT_FALSE(read(good, nullptr)->outdated);
  for (uint32_t revision : {oldest_programs - 1, program_revision + 1}) EXPECT_TRUE(read(with_header(good, [&](Header& h) { h.programs = revision; }), nullptr)->outdated);
}

TEST(Plan, DeviceCodeIsUsedWhenItWasMadeHereOrIsTrusted) {
  Plan made = sample();
  const std::vector<std::byte> bytes = bytes_of(made);
  auto from = [&](const std::vector<std::byte>& file, Trust trust) { return read(file, nullptr, trust)->code_from; };
  EXPECT_EQ(from(bytes, Trust::automatic), CodeFrom::here);
  EXPECT_EQ(from(bytes, Trust::data), CodeFrom::elsewhere);
  EXPECT_EQ(from(bytes, Trust::code), CodeFrom::trusted);
  // The same code with different steps is another plan.
  Plan other = made;
  other.code_from = CodeFrom::elsewhere;
  other.functions[0].programs[0].steps[0].constants = {std::byte{2}, std::byte{0xff}};
  const std::vector<std::byte> foreign = bytes_of(other);
  EXPECT_EQ(from(foreign, Trust::automatic), CodeFrom::elsewhere);
  EXPECT_EQ(bytes_of(*read(foreign, nullptr)), foreign);  // unused code is kept, and stays untrusted
  bytes_of(*read(foreign, nullptr, Trust::code));
  EXPECT_EQ(from(foreign, Trust::automatic), CodeFrom::elsewhere);
  // New values of weights do not change the code.
  float numbers[] = {9, 8, 7, 6, 5, 4};
  made.weights[0].data = made.weights[2].data = reinterpret_cast<const std::byte*>(numbers);
  made.code_from = CodeFrom::elsewhere;
  EXPECT_EQ(from(bytes_of(made), Trust::automatic), CodeFrom::here);
  // A folder that others can write proves nothing.
  ASSERT_EQ(::chmod((own_folder.path / "plans").c_str(), 0777), 0);
  EXPECT_EQ(from(bytes, Trust::automatic), CodeFrom::elsewhere);
  ASSERT_EQ(::chmod((own_folder.path / "plans").c_str(), 0700), 0);
  EXPECT_EQ(from(bytes, Trust::automatic), CodeFrom::here);
  std::filesystem::remove_all(own_folder.path / "plans");
  EXPECT_EQ(from(bytes, Trust::automatic), CodeFrom::elsewhere);
}

// Two functions: the sample's, which reads derived 0 and weight 1, and one that reads a tensor computed in three steps from weight 2.
Plan two_functions() {
  Plan p = sample();
  p.targets[0].derived.push_back({"tied, merged", 24});
  p.targets[0].derived.push_back({"unused", 24});
  Program& prepare = p.targets[0].prepare.programs[0];
  prepare.buffers.insert(prepare.buffers.end(), {{Buffer::Kind::weight, 2, 1}, {Buffer::Kind::arena, 0, 1, 1, 3}, {Buffer::Kind::derived, 1, 1}, {Buffer::Kind::derived, 2, 1}});
  auto step = [&](BufferId from, BufferId to, const char* label) {
    Step s{"fused", {{from, DType::f32, 0, {1}, {2}}, {to, DType::f32, 0, {1}, {2}}}, {}, {}, UINT32_MAX, label, 1};
    prepare.steps.push_back(s);
  };
  step(2, 3, "first half");
  step(2, 3, "second half");
  step(3, 4, "merge");
  step(0, 5, "of no use");
  Function g = p.functions[0];
  g.name = "other";
  g.programs[0].buffers[3].index = 1;
  g.programs[0].buffers[1] = {Buffer::Kind::weight, 3, 5};
  g.bindings.push_back({"b", DType::f32, {0}, {}, Binding::Kind::state, true, 1});
  p.functions.push_back(g);
  return p;
}

TEST(Plan, PartHasWhatOneFunctionNeeds) {
  Plan p = two_functions();
  ASSERT_NO_THROW(verify(p));
  Plan first = part(p, 0), second = part(p, 1);
  for (const Plan* one : {&first, &second}) {
    ASSERT_NO_THROW(verify(*one));
    EXPECT_EQ(bytes_of(*read(bytes_of(*one), nullptr)), bytes_of(*one));
  }
  EXPECT_EQ(first.functions[0].name, "forward");
  ASSERT_EQ(first.targets[0].prepare.programs[0].steps.size(), 1u);
  EXPECT_EQ(first.targets[0].prepare.programs[0].steps[0].label, "pack");
  EXPECT_EQ(first.weights.size(), 2u);
  EXPECT_EQ(first.targets[0].derived.size(), 1u);
  EXPECT_EQ(second.functions[0].name, "other");
  ASSERT_EQ(second.targets[0].prepare.programs[0].steps.size(), 3u);
  EXPECT_EQ(second.targets[0].prepare.programs[0].steps[2].label, "merge");
  const Buffer& scratch = second.targets[0].prepare.programs[0].buffers[second.targets[0].prepare.programs[0].steps[0].operands[1].buffer];
  EXPECT_EQ(scratch.first, 0u);
  EXPECT_EQ(scratch.last, 2u);
  ASSERT_EQ(second.weights.size(), 3u);
  EXPECT_EQ(second.weights[0].name, "b");
  EXPECT_EQ(second.weights[1].name, "tied");
  EXPECT_EQ(second.functions[0].bindings.back().weight, 0u);
  EXPECT_EQ(only_first_values(second), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(second.targets[0].derived[0].name, "tied, merged");
  EXPECT_THROW(part(p, 2), Error);
}

}  // namespace
}  // namespace ingot::plan
