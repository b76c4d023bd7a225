#include "probe.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>

#include "threads.h"

#include <link.h>
#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define FOLDWISE_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOLDWISE_WIDEST
#endif

namespace foldwise {

namespace {

// 0 where it is not AMD's.
int family_of_amd() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd") && __get_cpuid(1, &a, &b, &c, &d)) return static_cast<int>((a >> 8 & 15) + (a >> 20 & 255));
#endif
  return 0;
}

#if defined(__x86_64__)
bool has_avx512() { return __builtin_cpu_supports("avx512f"); }
bool has_products() { return __builtin_cpu_supports("avx512vnni"); }
#else
bool has_avx512() { return false; }
bool has_products() { return false; }
#endif

}  // namespace

// Zen 3 and 4 are one family, of which the second only has AVX-512.
const bool zen3 = family_of_amd() == 0x19 && !has_avx512(), zen4 = family_of_amd() == 0x19 && has_avx512(), zen5 = family_of_amd() >= 0x1a;
const bool lines_come_in_pairs = zen4, adds_products = zen4 && has_products();

namespace {

constexpr std::int64_t piece = 1 << 20;

FOLDWISE_WIDEST std::uint64_t read_all(const std::uint64_t* words, std::int64_t count) {
  const std::int64_t step = lines_come_in_pairs ? 16 : 8, distance = lines_come_in_pairs ? 384 : 1024;  // see row_prefetch_distance
  const auto ask = [](const std::uint64_t* line) {
    if (zen5) __builtin_prefetch(line, 0, 3);
    else __builtin_prefetch(line, 0, 2);
  };
  std::uint64_t lanes[64] = {};
  std::int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    for (std::int64_t ahead = 0; ahead < 64; ahead += step) ask(words + i + distance + ahead);
    for (int l = 0; l < 64; ++l) lanes[l] |= words[i + l];
  }
  for (; i < count; ++i) lanes[0] |= words[i];
  std::uint64_t all = 0;
  for (const std::uint64_t lane : lanes) all |= lane;
  return all;
}

void copy_past_caches(char* to, const char* from, std::int64_t bytes) {
#if defined(__x86_64__)
  const std::int64_t head = std::min<std::int64_t>(bytes, -reinterpret_cast<std::uintptr_t>(to) & 15);
  std::memcpy(to, from, head);
  std::int64_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    for (int part = 0; part < 64; part += 16) {
      _mm_stream_si128((__m128i*)(to + i + part), _mm_loadu_si128((const __m128i*)(from + i + part)));
    }
  }
  std::memcpy(to + i, from + i, bytes - i);
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

template <class Body>
void in_pieces(std::int64_t bytes, Body&& body) {
  const auto run = [&](std::int64_t p) { body(p * piece, std::min(piece, bytes - p * piece)); };
  const std::int64_t pieces = (bytes + piece - 1) / piece;
  if (pieces == 1) run(0);
  else parallel(pieces, run);
}

}  // namespace

namespace {

constexpr char constant[] = "one of those";

// Where they lie: in one or two segments of the library, which are found once, as whoever forks must not ask the loader.
struct Segment {
  const char *first, *last;
};
Segment constants[8];

int find_constants(dl_phdr_info* library, std::size_t, void*) {
  const auto of = [&](const auto& header) {
    const char* first = reinterpret_cast<const char*>(library->dlpi_addr + header.p_vaddr);
    return Segment{first, first + header.p_memsz};
  };
  const auto* headers = library->dlpi_phdr;
  const auto* end = headers + library->dlpi_phnum;
  const auto* ours = std::find_if(headers, end, [&](const auto& header) {
    return header.p_type == PT_LOAD && of(header).first <= constant && constant < of(header).last;
  });
  if (ours == end) return 0;
  Segment* next = constants;
  std::for_each(headers, end, [&](const auto& header) {
    if (header.p_type == PT_LOAD && header.p_flags == ours->p_flags && next < std::end(constants)) *next++ = of(header);
  });
  return 1;
}

// Between two of them, as it may be: AddressSanitizer is not asked.
__attribute__((no_sanitize("address"))) void look_at_constants() {
  constexpr std::uintptr_t page = 4096;
  for (auto [first, last] : constants) {
    for (; first < last; first += page - reinterpret_cast<std::uintptr_t>(first) % page) *static_cast<const volatile char*>(first);
  }
}

}  // namespace

void keep_constants_at_hand() {
  dl_iterate_phdr(find_constants, nullptr);
  look_at_constants();
  pthread_atfork(nullptr, nullptr, look_at_constants);
}

std::uint64_t probe_read(const char* data, std::int64_t bytes) {
  std::atomic<std::uint64_t> all{0};
  in_pieces(bytes, [&](std::int64_t at, std::int64_t some) {
    all |= read_all(reinterpret_cast<const std::uint64_t*>(data + at), some / 8);
  });
  return all;
}

void probe_copy(char* to, const char* from, std::int64_t bytes) {
  in_pieces(bytes, [&](std::int64_t at, std::int64_t some) { copy_past_caches(to + at, from + at, some); });
}

}  // namespace foldwise
