// Weight streaming: which weights stay on a device, and in which order the others are copied. Works on plain numbers, and on streams that only note their work.
#include "runtime/streaming.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "runtime/copy_stream.h"

namespace ingot::runtime {
namespace {

// The reads of one function: its step n reads the weights steps[n].
WeightReads reads_of(const std::vector<size_t>& bytes, std::vector<std::vector<uint32_t>> steps) {
  WeightReads out;
  for (uint32_t w = 0; w < bytes.size(); ++w) out.weights.push_back({false, w, bytes[w]});
  out.steps.push_back(std::move(steps));
  return out;
}

// Step n reads weight n.
WeightReads one_each(const std::vector<size_t>& bytes) {
  std::vector<std::vector<uint32_t>> steps;
  for (uint32_t w = 0; w < bytes.size(); ++w) steps.push_back({w});
  return reads_of(bytes, std::move(steps));
}

std::string refusal(const WeightReads& reads, size_t limit, size_t arena, size_t making) {
  try {
    split_weights(reads, limit, arena, making);
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::out_of_memory);
    return e.message + "; " + e.remedy;
  }
  return "";
}

constexpr size_t mb = 1 << 20;

TEST(Split, AllStayWhereThereIsRoom) {
  const WeightReads reads = one_each(std::vector<size_t>(10, mb));
  const Split split = split_weights(reads, 12 * mb, 2 * mb, mb);
  EXPECT_EQ(split.resident_bytes, 10 * mb);
  EXPECT_EQ(split.streamed_bytes + split.ring_bytes, 0u);
  EXPECT_GT(split_weights(reads, 12 * mb - 1, 2 * mb, mb).streamed_bytes, 0u);
}

TEST(Split, ResidentWeightsAreSpreadOverTheSteps) {
  const WeightReads reads = one_each(std::vector<size_t>(100, mb));
  const Split split = split_weights(reads, 52 * mb, 0, 0);
  EXPECT_EQ(split.ring_bytes, 2 * mb);
  EXPECT_EQ(split.resident_bytes, 50 * mb);
  EXPECT_EQ(split.streamed_bytes, 50 * mb);
  EXPECT_FALSE(split.streamed[0]);  // its step gives time to copy the next weight
  for (size_t w = 0; w + 1 < 100; ++w) EXPECT_NE(split.streamed[w], split.streamed[w + 1]) << w;
}

TEST(Split, LargeWeightsThatNeedALargeRingAndSmallOnesStay) {
  std::vector<size_t> bytes(64, 4 * mb);
  bytes.front() = bytes.back() = 50 * mb;  // like an embedding and the last GEMM of a language model
  for (int k = 0; k < 10; ++k) bytes.push_back(1024);
  const Split split = split_weights(one_each(bytes), 200 * mb, 10 * mb, 0);
  EXPECT_EQ(split.ring_bytes, 8 * mb);
  EXPECT_FALSE(split.streamed[0] || split.streamed[63]);
  for (size_t k = 64; k < 74; ++k) EXPECT_FALSE(split.streamed[k]);
  EXPECT_LE(split.resident_bytes + split.ring_bytes + 10 * mb, 200 * mb);
  EXPECT_GT(split.resident_bytes + split.ring_bytes + 10 * mb, 196 * mb);  // no other weight fits
}

TEST(Split, TheErrorNamesTheLeastLimit) {
  const WeightReads reads = one_each({mb, 4 * mb, mb, mb, mb, mb});
  EXPECT_EQ(refusal(reads, 5 * mb, mb, 0),
            "option memory_bytes is 5242880, but the weights need at least 7340032, with a ring for streamed ones and 1048576 for a run; "
            "set memory_bytes to 7340032 or more, or to 0 for no limit");
  const Split split = split_weights(reads, 7 * mb, mb, 0);  // the largest stays, the others go
  EXPECT_EQ(split.least, 7 * mb);
  EXPECT_EQ(split.streamed, (std::vector<bool>{true, false, true, true, true, true}));
  EXPECT_EQ(split_weights(reads, 100 * mb, mb, 0).least, 7 * mb);
  EXPECT_NE(refusal(reads, 7 * mb, mb, 4 * mb), "");  // memory for preparing a weight is needed in addition to the resident ones
  EXPECT_EQ(split_weights(reads, 8 * mb, mb, 4 * mb).resident_bytes, 4 * mb);
}

TEST(Split, WeightsOfOneStepAreThereTogether) {
  std::vector<std::vector<uint32_t>> steps;
  for (uint32_t w = 0; w < 60; w += 3) steps.push_back({w, w + 1, w + 2});
  const Split split = split_weights(reads_of(std::vector<size_t>(60, mb), steps), 30 * mb, 0, 0);
  std::vector<size_t> of_steps;
  for (const auto& step : steps) of_steps.push_back(static_cast<size_t>(std::count_if(step.begin(), step.end(), [&](uint32_t w) { return split.streamed[w]; })));
  EXPECT_EQ(split.ring_bytes, 2 * mb * *std::max_element(of_steps.begin(), of_steps.end()));
  EXPECT_LE(split.resident_bytes + split.ring_bytes, 30 * mb);
}

// ---- the order of copies and steps

// Never read or written, and no null pointer, to which nothing may be added.
std::byte* ring() { return reinterpret_cast<std::byte*>(size_t{1} << 40); }

// The work of several streams. Work runs after the earlier ones of its stream, and after the points that its stream has waited for.
struct Book {
  struct Work {
    std::string what;
    std::vector<size_t> after;  // all work that is certainly done before it
    size_t begin = 0, end = 0, step = 0;
    const std::byte* from = nullptr;
    bool copy = false;
  };
  std::vector<Work> work;
  size_t fails = 0;  // the k-th call fails; 0: none
  void call() {
    if (fails > 0 && --fails == 0) fail(Code::device, "no");
  }
  bool comes_after(size_t later, size_t sooner) const { return std::binary_search(work[later].after.begin(), work[later].after.end(), sooner); }
};

struct BookPoint final : backend::Point {
  std::set<size_t> before;
};

class BookStream final : public backend::Stream {
 public:
  explicit BookStream(Book& book) : book_(book) {}
  void give(Book::Work w) {
    w.after.assign(before_.begin(), before_.end());
    before_.insert(book_.work.size());
    book_.work.push_back(std::move(w));
  }
  void copy(void* to, const void* from, size_t bytes) override {
    book_.call();
    const auto at = static_cast<size_t>(static_cast<std::byte*>(to) - ring());
    give({"copy", {}, at, at + bytes, 0, static_cast<const std::byte*>(from), true});
  }
  void fill(void*, uint8_t, size_t) override {}
  std::unique_ptr<backend::Point> new_point() const override { return std::make_unique<BookPoint>(); }
  void set(backend::Point& p) const override {
    book_.call();
    static_cast<BookPoint&>(p).before = before_;
  }
  void come_after(const backend::Point& p) const override {
    book_.call();
    const auto& more = static_cast<const BookPoint&>(p).before;
    before_.insert(more.begin(), more.end());
  }
  void set_stream(void*) override {}
  void wait() override {}
  void check() override {}
  bool recorded_by_caller() const override { return false; }
  void keep(std::shared_ptr<const void>) const override {}
  std::unique_ptr<backend::Recording> record(FunctionRef<void()>) override { return nullptr; }
  void replay(const backend::Recording&) override {}
  void mark() override {}
  std::vector<int64_t> nanoseconds() override { return {}; }
  bool is_behind(size_t w) const { return before_.contains(w); }

 private:
  Book& book_;
  mutable std::set<size_t> before_;
};

class BookDevice final : public backend::Backend {
 public:
  explicit BookDevice(Book& book) : book_(book) {}
  const backend::RunKernel* find(std::string_view) const override { return nullptr; }
  Allocator* memory() const override { return nullptr; }
  size_t alignment() const override { return 1; }
  bool can_access(const void*) const override { return true; }
  std::unique_ptr<backend::Stream> new_stream() const override { return std::make_unique<BookStream>(book_); }
  void synchronize() const override {}
  int ordinal() const override { return 0; }
  std::string machine() const override { return {}; }
  Room room() const override { return {}; }

 private:
  Book& book_;
};

const std::byte* host(uint32_t w) { return reinterpret_cast<const std::byte*>(size_t{0x100000} * (w + 1)); }

Streaming::OfFunction loads_of(const WeightReads& reads, const Split& split) {
  Streaming::OfFunction made = plan_loads(reads, split, reads.steps[0]);
  for (Streaming::Load& load : made.loads) {
    for (Streaming::Copy& c : load.copies) c.from = host(c.weight);
  }
  return made;
}

void run(CopyStream& copy_stream, const Streaming::OfFunction& loads, BookStream& stream, Book& book, size_t steps) {
  CopyStream::Loading loading(copy_stream, loads, ring(), stream);
  loading.begin();
  for (uint32_t n = 0; n < steps; ++n) {
    loading.before(n);
    book.call();
    stream.give({"step", {}, 0, 0, n});
    loading.after(n);
  }
}

// Checks that each step finds its weights in every order that the streams allow: the weight's copy runs before the step, and any other copy to the same place
// runs before that copy or after the step.
void expect_found(const Book& book, const WeightReads& reads, const Split& split, const Streaming::OfFunction& loads) {
  for (size_t s = 0; s < book.work.size(); ++s) {
    if (book.work[s].copy) continue;
    for (uint32_t w : reads.steps[0][book.work[s].step]) {
      if (!split.streamed[w]) continue;
      const size_t begin = loads.places.at({static_cast<uint32_t>(book.work[s].step), false, w}), end = begin + reads.weights[w].bytes;
      EXPECT_LE(end, split.ring_bytes);
      size_t brought = SIZE_MAX;  // the last copy of the weight before the step
      for (size_t c = 0; c < s; ++c) {
        if (book.work[c].copy && book.work[c].from == host(w) && book.work[c].begin == begin && book.comes_after(s, c)) brought = c;
      }
      ASSERT_NE(brought, SIZE_MAX) << "step " << book.work[s].step << " does not wait for weight " << w;
      for (size_t c = 0; c < book.work.size(); ++c) {
        if (!book.work[c].copy || c == brought || book.work[c].end <= begin || end <= book.work[c].begin) continue;
        EXPECT_TRUE(book.comes_after(brought, c) || book.comes_after(c, s)) << "weight " << w << " of step " << book.work[s].step << " may be overwritten";
      }
    }
  }
}

TEST(CopyStream, StepsFindTheirWeightsInEveryOrder) {
  std::mt19937 random(7);
  auto below = [&](size_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<size_t> bytes(2 + below(20));
    for (size_t& b : bytes) b = (1 + below(16)) * 256;
    std::vector<std::vector<uint32_t>> steps(1 + below(40));
    for (auto& step : steps) {
      for (size_t k = below(4); k > 0; --k) {
        const auto w = static_cast<uint32_t>(below(bytes.size()));
        if (std::find(step.begin(), step.end(), w) == step.end()) step.push_back(w);
      }
    }
    const WeightReads reads = reads_of(bytes, steps);
    size_t largest = 0;
    for (const auto& step : steps) {
      largest = std::max(largest, std::accumulate(step.begin(), step.end(), size_t{0}, [&](size_t sum, uint32_t w) { return sum + bytes[w]; }));
    }
    Split split;
    for (size_t w = 0; w < bytes.size(); ++w) split.streamed.push_back(below(4) > 0);
    split.ring_bytes = 2 * largest;
    const Streaming::OfFunction loads = loads_of(reads, split);
    Book book;
    CopyStream copy_stream{BookDevice(book)};
    BookStream stream(book);
    for (int runs = 0; runs < 2; ++runs) run(copy_stream, loads, stream, book, steps.size());
    for (size_t w = 0; w < book.work.size(); ++w) EXPECT_TRUE(stream.is_behind(w));  // so the ring may be freed
    expect_found(book, reads, split, loads);
  }
}

TEST(CopyStream, CopiesGoAheadOfTheSteps) {
  // The ring has two places, so the third weight waits for the first step only.
  const WeightReads reads = one_each(std::vector<size_t>(4, 256));
  Split split;
  split.streamed.assign(4, true);
  split.ring_bytes = 512;
  const Streaming::OfFunction loads = loads_of(reads, split);
  ASSERT_EQ(loads.loads.size(), 4u);
  EXPECT_EQ(loads.loads[0].after, Streaming::none);
  EXPECT_EQ(loads.loads[1].after, Streaming::none);
  EXPECT_EQ(loads.loads[2].after, 0u);
  EXPECT_EQ(loads.loads[3].after, 1u);
}

TEST(CopyStream, AWeightThatIsStillInTheRingIsNotCopiedAgain) {
  const WeightReads reads = reads_of({256, 256, 256, 256}, {{0}, {1}, {0}, {2}, {3}, {0}});
  Split split;
  split.streamed.assign(4, true);
  split.ring_bytes = 512;
  const Streaming::OfFunction loads = loads_of(reads, split);
  std::vector<uint32_t> copied;
  for (const Streaming::Load& load : loads.loads) copied.push_back(load.copies[0].weight);
  EXPECT_EQ(copied, (std::vector<uint32_t>{0, 1, 2, 3, 0}));
}

// Whichever call fails, later work in the session's stream waits for the copies that are still running: it may get their memory.
TEST(CopyStream, AfterAnErrorNothingOvertakesTheCopies) {
  const WeightReads reads = one_each(std::vector<size_t>(6, 256));
  Split split;
  split.streamed.assign(6, true);
  split.ring_bytes = 512;
  const Streaming::OfFunction loads = loads_of(reads, split);
  for (size_t k = 1;; ++k) {
    Book book;
    CopyStream copy_stream{BookDevice(book)};
    BookStream stream(book);
    book.fails = k;
    try {
      run(copy_stream, loads, stream, book, 6);
    } catch (const Error&) {
      for (size_t w = 0; w < book.work.size(); ++w) EXPECT_TRUE(stream.is_behind(w)) << "call " << k;
      run(copy_stream, loads, stream, book, 6);
      expect_found(book, reads, split, loads);
      continue;
    }
    EXPECT_GT(k, 20u);
    break;
  }
}

}  // namespace
}  // namespace ingot::runtime
