#include "memory.h"

#define PY_ARRAY_UNIQUE_SYMBOL foldwise_numpy
#define NO_IMPORT_ARRAY
#include <numpy/arrayobject.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace foldwise {

namespace {

constexpr std::size_t huge_page = 2 << 20;

struct Block {
  char* data;
  std::size_t size;
};

// Blocks that were freed, the latest last, and the sizes of those in use. Arrays die on any thread: all under a mutex.
struct Kept {
  std::mutex mutex;
  std::vector<Block> blocks;
  std::unordered_map<void*, std::size_t> in_use;
  std::size_t bytes = 0;
  std::size_t limit = 0;

  void drop(std::size_t index) {
    bytes -= blocks[index].size;
    munmap(blocks[index].data, blocks[index].size);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index));
  }
  void shrink_to(std::size_t most) {
    while (bytes > most) drop(0);
  }
};

Kept& kept() {
  // Arrays may outlive every destructor; a fork must not take the lock along.
  static Kept* everlasting = [] {
    Kept* made = new Kept;
    pthread_atfork([] { kept().mutex.lock(); }, [] { kept().mutex.unlock(); }, [] { kept().mutex.unlock(); });
    return made;
  }();
  return *everlasting;
}

std::size_t rounded(std::size_t size) { return (size + huge_page - 1) / huge_page * huge_page; }

char* fresh(std::size_t size) {
  // Aligned to a huge page, by mapping one more and giving back the ends.
  char* raw = static_cast<char*>(mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (raw == MAP_FAILED) return nullptr;
  char* data = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(raw) + huge_page - 1) / huge_page * huge_page);
  if (data != raw) munmap(raw, static_cast<std::size_t>(data - raw));
  if (const std::size_t behind = huge_page - static_cast<std::size_t>(data - raw)) munmap(data + size, behind);
  madvise(data, size, MADV_HUGEPAGE);
  return data;
}

// The smallest kept block that fits without wasting a quarter, or a new one.
void* take(void*, std::size_t wanted) {
  const std::size_t size = rounded(std::max<std::size_t>(wanted, 1));
  Kept& memory = kept();
  std::lock_guard lock(memory.mutex);
  std::size_t best = memory.blocks.size();
  for (std::size_t i = 0; i < memory.blocks.size(); ++i) {
    const std::size_t have = memory.blocks[i].size;
    if (have < size || have > size + size / 4) continue;
    if (best == memory.blocks.size() || have < memory.blocks[best].size) best = i;
  }
  Block block{nullptr, size};
  if (best < memory.blocks.size()) {
    block = memory.blocks[best];
    memory.bytes -= block.size;
    memory.blocks.erase(memory.blocks.begin() + static_cast<std::ptrdiff_t>(best));
  } else {
    block.data = fresh(size);
  }
  if (block.data) memory.in_use[block.data] = block.size;
  return block.data;
}

void give(void*, void* data, std::size_t) {
  if (!data) return;
  Kept& memory = kept();
  std::lock_guard lock(memory.mutex);
  const auto used = memory.in_use.find(data);
  const std::size_t size = used->second;
  memory.in_use.erase(used);
  if (size > memory.limit) {
    munmap(data, size);
    return;
  }
  memory.shrink_to(memory.limit - size);
  madvise(data, size, MADV_FREE);  // still ours, and there at once, unless somebody needs it more
  memory.blocks.push_back({static_cast<char*>(data), size});
  memory.bytes += size;
}

void* take_cleared(void* context, std::size_t count, std::size_t each) {
  void* data = take(context, count * each);
  if (data) std::memset(data, 0, count * each);
  return data;
}

void* resize(void* context, void* data, std::size_t wanted) {
  std::size_t size;
  {
    Kept& memory = kept();
    std::lock_guard lock(memory.mutex);
    size = memory.in_use.at(data);
  }
  if (wanted <= size) return data;
  void* larger = take(context, wanted);
  if (!larger) return nullptr;
  std::memcpy(larger, data, size);
  give(context, data, size);
  return larger;
}

PyDataMem_Handler handler = {"foldwise_large_results", 1, {nullptr, take, take_cleared, resize, give}};

PyObject* capsule() {
  static PyObject* made = PyCapsule_New(&handler, "mem_handler", nullptr);
  return made;
}

}  // namespace

void set_kept_memory(std::int64_t bytes) {
  Kept& memory = kept();
  std::lock_guard lock(memory.mutex);
  memory.limit = static_cast<std::size_t>(bytes);
  memory.shrink_to(memory.limit);
}

std::int64_t kept_memory() {
  Kept& memory = kept();
  std::lock_guard lock(memory.mutex);
  return static_cast<std::int64_t>(memory.limit);
}

LargeResults::LargeResults(std::int64_t bytes) {
  if (bytes >= large_result && kept_memory() > 0) before_ = PyDataMem_SetHandler(capsule());
}

LargeResults::~LargeResults() {
  if (!before_) return;
  Py_XDECREF(PyDataMem_SetHandler(before_));
  Py_DECREF(before_);
}

}  // namespace foldwise
