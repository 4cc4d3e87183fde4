// The memory that a model writes (buffers, caches, counters), apart from the sessions that run the model.
#pragma once
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "runtime/weights.h"

namespace ingot::runtime {

// One entry for each weight that some function of the plan writes; functions that write the same weight share its entry. An entry takes memory, and the value
// that its weight has then, when it is first used. Memory of the caller's may be bound to it instead.
//
// For any thread, but one user at a time: a run of a session, or a call of what stands below "calls". The second gets Error (invalid_input).
class State {
 public:
  // Of one session: it runs in that session's stream alone, so nothing has to be ordered. Shared: sessions of several streams may use it in turn.
  enum class Of { one_session, shared };
  State(std::shared_ptr<Weights> weights, Allocator& allocator, Of of);

  // For the length of a run or a call. On a GPU, the work that the user gives to the stream comes after all earlier work with the state, whichever stream that is
  // in. While the caller records the stream, the order is the caller's.
  class Use {
   public:
    explicit Use(State&, const backend::Stream* = nullptr);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // All work is in the stream. A user that ends without it makes the next one wait for the whole device.
    void finish();

   private:
    // Says that the state is in use.
    class Claim {
     public:
      explicit Claim(State&);
      ~Claim() { state_.used_.store(false, std::memory_order_release); }
      Claim(const Claim&) = delete;
      Claim& operator=(const Claim&) = delete;

     private:
      State& state_;
    };
    State& state_;
    const Claim claim_;
    const backend::Stream* stream_ = nullptr;  // in which our work has to be ordered
  };

  size_t size() const { return entries_.size(); }
  const plan::Weight& weight(size_t entry) const { return weights_->plan().weights[entries_[entry].weight]; }
  // By the number of a weight in the plan; by its name, or the name that is tied to it. Error (invalid_input) when there is none.
  size_t entry_of(uint32_t weight) const;
  size_t find(std::string_view name) const;
  // First values are these weights' from now on, forks of those before.
  void set_weights(std::shared_ptr<Weights> weights) { weights_ = std::move(weights); }
  // Error (invalid_input) unless sessions of these weights can run with it: they are of the same plan on the same device.
  void check_fits(const Weights&) const;

  // For a user: where an entry lies, with memory. What has none gets it, and its first value by a copy in the stream.
  const HostTensor& memory(size_t entry, backend::Stream&);
  bool is_bound(size_t entry) const { return entries_[entry].bound; }

  // ---- calls; what they copy has arrived when they return, and what fails changes nothing

  // Memory and first values for all entries whose weights have values.
  void begin();
  // Memory of the caller's, of the weight's dtype and sizes with any strides, is read and written in place from now on, and must outlive its use. Data null: memory of
  // the state's own again, with the value that the weight has when it is used next.
  void bind(size_t entry, const HostTensor& memory);
  // An entry to (`out`) or from dense row-major memory of the host or the device.
  void copy(size_t entry, void* data, size_t bytes, bool out);
  // All entries to (`out`) or from dense memory of the host, one after another.
  void copy_all(std::byte* data, bool out);
  // The weights' values again, wherever the entries lie; or where they are the state's own alone.
  void reset(bool own_only = false);
  // Another state with the same values, all in memory of its own.
  std::shared_ptr<State> fork();
  // What another state of the same plan on the same device holds.
  void copy_from(State& other);
  // Where an entry lies; all work with it is done.
  HostTensor tensor(size_t entry);

 private:
  struct Entry {
    uint32_t weight;
    bool bound = false;
    MemoryBlock own;
    HostTensor memory;              // `own` or what is bound; data null: none yet
    std::vector<int64_t> strides;   // of what is bound
  };
  bool on_device() const { return weights_->backend().memory() != nullptr; }
  void with_stream(FunctionRef<void(backend::Stream&)> work);
  void transfer(const Entry&, void* dense, bool out, backend::Stream&) const;
  const std::byte* first_value(const Entry&) const;
  MemoryBlock room(const Entry&) const;
  void settle(Entry&, MemoryBlock own) const;
  void check_reachable(const Entry&) const;

  std::shared_ptr<Weights> weights_;
  Allocator& allocator_;  // of memory of the host
  const Of of_;
  std::vector<Entry> entries_;
  std::atomic<bool> used_ = false;
  // Behind the last work with a shared state. `lost_`: there may be work behind it.
  std::unique_ptr<backend::Point> last_;
  bool lost_ = false;
};

}  // namespace ingot::runtime
