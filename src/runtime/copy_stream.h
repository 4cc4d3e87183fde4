// CopyStream: the second stream of a session. It copies streamed weights to the device while the session's stream computes.
#pragma once
#include <memory>
#include <vector>

#include "backend/run/device.h"
#include "runtime/streaming.h"

namespace ingot::runtime {

class CopyStream {
 public:
  explicit CopyStream(const backend::Backend& backend) : stream_(backend.new_own_stream()) {}

  // Marks the end of a run: all its work is in the session's stream.
  void note_end(backend::Stream& stream);
  // Waits until all marked runs are done. From then on nothing reads the host memory that their copies read.
  void wait();

  // The copies of one run. A copy starts after the last step that reads the old content of its place in the ring, and ends before the step that needs it.
  // The first copy waits for the session's stream, and the session's stream waits for every copy. So a recording of that stream contains the copies, and the
  // ring may be freed together with the run's other memory.
  class Loading {
   public:
    Loading(CopyStream& copy_stream, const Streaming::OfFunction& loads, std::byte* ring, backend::Stream& stream)
        : copy_stream_(copy_stream), loads_(loads), ring_(ring), stream_(stream) {}
    ~Loading();
    Loading(const Loading&) = delete;
    Loading& operator=(const Loading&) = delete;
    void begin();
    void before(uint32_t step);
    void after(uint32_t step) { start(step); }

   private:
    void start(uint32_t after);
    CopyStream& copy_stream_;
    const Streaming::OfFunction& loads_;
    std::byte* ring_;
    backend::Stream& stream_;
    size_t started_ = 0, met_ = 0;
    bool ahead_ = false;  // the copy stream may have copies that the session's stream does not wait for yet
  };

 private:
  std::unique_ptr<backend::Stream> stream_;
  std::unique_ptr<backend::Point> end_;                     // in the session's stream, after the last run
  std::unique_ptr<backend::Point> free_;                    // in the session's stream: the places of the next copies are no longer read
  std::vector<std::unique_ptr<backend::Point>> arrived_;    // in the copy stream, after each load
};

}  // namespace ingot::runtime
