/* Inner loops of parts. Whole numbers in, whole numbers out, the same as by NumPy; portable C99.
 *
 * All memory is the caller's. Nothing here draws, and nothing depends on the number of threads. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "floats would be rounded otherwise than NumPy does"
#endif

/* Raised with every change of a signature or a meaning, here and in __init__.py. */
#define ABI 6

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif

/* Where the compiler can, loops are compiled for every processor and for those with AVX2. */
#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define INLINE inline __attribute__((always_inline))
#define FAST __attribute__((target("avx2,popcnt")))
#define ON_A_FAST_PROCESSOR (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"))
#else
#define INLINE inline
#endif

EXPORT int dpkit_abi(void) { return ABI; }

/* Ranks: sorted by the upper halves of values, digit by digit, then by the lower ones where upper ones agree. */

static INLINE uint64_t ordered(double value) {
    uint64_t bits;
    value += 0.0; /* -0.0 is 0.0 */
    memcpy(&bits, &value, 8);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static void sort(uint64_t *keys, uint64_t *records, int64_t n, uint64_t *scratch) {
    if (n <= 16) {
        for (int64_t i = 1; i < n; i++) {
            uint64_t key = keys[i], record = records[i];
            int64_t j = i;
            for (; j > 0 && keys[j - 1] > key; j--) {
                keys[j] = keys[j - 1];
                records[j] = records[j - 1];
            }
            keys[j] = key;
            records[j] = record;
        }
        return;
    }
    int64_t half = n / 2, i = 0, j = half, k = 0;
    sort(keys, records, half, scratch);
    sort(keys + half, records + half, n - half, scratch);
    uint64_t *merged_keys = scratch, *merged_records = scratch + n;
    while (i < half && j < n) {
        int64_t from = keys[j] < keys[i] ? j++ : i++;
        merged_keys[k] = keys[from];
        merged_records[k++] = records[from];
    }
    if (i < half) { /* the largest of the first half come last; those of the second are in their places */
        memmove(keys + k, keys + i, sizeof *keys * (size_t)(half - i));
        memmove(records + k, records + i, sizeof *records * (size_t)(half - i));
    }
    memcpy(keys, merged_keys, sizeof *keys * (size_t)k);
    memcpy(records, merged_records, sizeof *records * (size_t)k);
}

/* Writes the dense ranks of n finite values and returns the number of tied pairs. The scratch is 4 n words. */
EXPORT int64_t dpkit_ranks(int64_t n, const double *values, int32_t *ranks, uint64_t *scratch) {
    uint64_t *records = scratch, *other = scratch + n;
    int64_t counts[4][256];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++) {
        uint64_t upper = ordered(values[i]) >> 32;
        records[i] = upper << 32 | (uint64_t)i;
        for (int digit = 0; digit < 4; digit++) counts[digit][upper >> 8 * digit & 255]++;
    }
    for (int digit = 0; digit < 4; digit++) {
        int64_t *count = counts[digit], total = 0;
        if (n && count[records[0] >> (32 + 8 * digit) & 255] == n) continue;
        for (int value = 0; value < 256; value++) {
            int64_t here = count[value];
            count[value] = total;
            total += here;
        }
        for (int64_t i = 0; i < n; i++) other[count[records[i] >> (32 + 8 * digit) & 255]++] = records[i];
        uint64_t *swapped = records;
        records = other;
        other = swapped;
    }
    for (int64_t i = 0; i < n; i++) {
        records[i] &= UINT32_MAX;
        other[i] = ordered(values[records[i]]);
    }
    int64_t tied = 0;
    int32_t rank = -1;
    for (int64_t first = 0, end; first < n; first = end) {
        int falls = 0;
        for (end = first + 1; end < n && other[end] >> 32 == other[first] >> 32; end++)
            falls |= other[end] < other[end - 1];
        if (falls) sort(other + first, records + first, end - first, scratch + 2 * n);
        int64_t alike = 0;
        for (int64_t i = first; i < end; i++) {
            alike = i > first && other[i] == other[i - 1] ? alike + 1 : 0;
            rank += !alike;
            tied += alike;
            ranks[records[i]] = rank;
        }
    }
    return tied;
}

/* Discordant pairs: the inversions of a sequence, counted as its elements arrive by those above each that are
 * there already. A tree of sixteen branches holds for each node, in each lane, how many are in later branches;
 * its leaves are words of 64 bits, its root has 32 branches. Lanes are added to by word, and never overflow:
 * a node of the two lowest levels has at most 2^14 elements, and the sequence 2^27. */

typedef union { uint64_t words[4]; uint16_t lanes[16]; } small_node;
typedef union { uint64_t words[8]; uint32_t lanes[16]; } large_node;
typedef union { uint64_t words[4]; uint8_t lanes[32]; } root_node;

enum { LEAF = 6, BRANCH = 4, ROOT = 5, TILE = 1024 };

static INLINE int bits_set(uint64_t word, int fast) {
#ifdef FAST
    if (fast) return __builtin_popcountll(word);
#endif
    (void)fast;
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (int)(word * UINT64_C(0x0101010101010101) >> 56);
}

static int64_t nodes(int64_t n, int shift) { return ((n - 1) >> shift) + 1; }

/* Words of memory that counting the inversions of n elements takes. */
static int64_t tree_words(int64_t n) { return n < 1 ? 0 : nodes(n, LEAF) + 8 * (nodes(n, 10) + nodes(n, 14) + nodes(n, 18) + nodes(n, 22)); }

/* Of the elements in an order, if there is one, else as they are. */
static INLINE int64_t inversions_by(const uint32_t *sequence, const int32_t *order, int64_t n, uint64_t *words, int fast) {
    small_node small_steps[16];
    large_node large_steps[16];
    root_node root_steps[32];
    for (int branch = 0; branch < 32; branch++)
        for (int lane = 0; lane < 32; lane++) {
            root_steps[branch].lanes[lane] = lane < branch;
            if (branch < 16 && lane < 16) small_steps[branch].lanes[lane] = large_steps[branch].lanes[lane] = lane < branch;
        }
    int levels = 0;
    while ((n - 1) >> (LEAF + BRANCH * levels + ROOT)) levels++;
    memset(words, 0, sizeof *words * (size_t)tree_words(n));
    uint64_t *leaves = words;
    small_node *small_nodes[2];
    large_node *large_nodes[2];
    words += nodes(n, LEAF);
    for (int level = 0; level < 4; level++) {
        if (level < 2) small_nodes[level] = (small_node *)words;
        else large_nodes[level - 2] = (large_node *)words;
        words += 8 * nodes(n, LEAF + BRANCH * (level + 1));
    }
    uint32_t later[32] = {0};
    int64_t found = 0;
    for (int64_t first = 0; first < n; first += TILE) { /* tile by tile, each level in a loop of its own */
        const uint32_t *tile = sequence + first;
        uint32_t gathered[TILE];
        int size = n - first < TILE ? (int)(n - first) : TILE;
        if (order) {
            for (int i = 0; i < size; i++) gathered[i] = sequence[order[first + i]];
            tile = gathered;
        }
        for (int i = 0; i < size; i++) {
            uint64_t leaf = leaves[tile[i] >> LEAF];
            found += bits_set(leaf >> (tile[i] & 63), fast);
            leaves[tile[i] >> LEAF] = leaf | UINT64_C(1) << (tile[i] & 63);
        }
        for (int level = 0; level < levels && level < 2; level++)
            for (int i = 0, shift = LEAF + BRANCH * level; i < size; i++) {
                uint32_t branch = tile[i] >> shift & 15;
                small_node *node = small_nodes[level] + (tile[i] >> (shift + BRANCH));
                found += node->lanes[branch];
                for (int word = 0; word < 4; word++) node->words[word] += small_steps[branch].words[word];
            }
        for (int level = 2; level < levels; level++)
            for (int i = 0, shift = LEAF + BRANCH * level; i < size; i++) {
                uint32_t branch = tile[i] >> shift & 15;
                large_node *node = large_nodes[level - 2] + (tile[i] >> (shift + BRANCH));
                found += node->lanes[branch];
                for (int word = 0; word < 8; word++) node->words[word] += large_steps[branch].words[word];
            }
        for (int start = 0, shift = LEAF + BRANCH * levels; start < size; start += 32) {
            root_node here = {{0}}; /* of at most 32 elements: in bytes */
            for (int i = start; i < size && i < start + 32; i++) {
                uint32_t branch = tile[i] >> shift;
                found += later[branch] + here.lanes[branch];
                for (int word = 0; word < 4; word++) here.words[word] += root_steps[branch].words[word];
            }
            for (int branch = 0; branch < 32; branch++) later[branch] += here.lanes[branch];
        }
    }
    return found;
}

#ifdef FAST
FAST static int64_t inversions_fast(const uint32_t *sequence, const int32_t *order, int64_t n, uint64_t *words) {
    return inversions_by(sequence, order, n, words, 1);
}
#endif

static int64_t inversions(const uint32_t *sequence, const int32_t *order, int64_t n, uint64_t *words) {
    if (n < 2) return 0;
#ifdef FAST
    if (ON_A_FAST_PROCESSOR) return inversions_fast(sequence, order, n, words);
#endif
    return inversions_by(sequence, order, n, words, 0);
}

/* Where the first record with each of the dense ranks comes, among records in their order. */
static void starts(int64_t n, const int32_t *ranks, int64_t distinct, uint32_t *first) {
    memset(first, 0, sizeof *first * (size_t)(distinct + 1));
    for (int64_t i = 0; i < n; i++) first[ranks[i] + 1]++;
    for (int64_t rank = 0; rank < distinct; rank++) first[rank + 1] += first[rank];
}

/* Writes the records in the order of their dense ranks, and the ranks in that order. The scratch is n + 1. */
EXPORT void dpkit_order(int64_t n, const int32_t *ranks, int64_t distinct, int32_t *order, int32_t *grouped,
                        uint32_t *scratch) {
    starts(n, ranks, distinct, scratch);
    for (int64_t i = 0; i < n; i++) {
        uint32_t place = scratch[ranks[i]]++;
        order[place] = (int32_t)i;
        grouped[place] = ranks[i];
    }
}

/* Words of memory for dpkit_discordant. */
EXPORT int64_t dpkit_discordant_words(int64_t n) { return tree_words(n) + 3 * (n + 2) / 2; }

/* Returns the pairs that a reference and a column order in opposite ways, and writes those tied in both.
 *
 * order, grouped: of the reference, by dpkit_order. Records are put in the order (column, reference), and from
 * there in the order (reference, column): of a pair that is tied in either, the two say the same. */
EXPORT int64_t dpkit_discordant(int64_t n, const int32_t *order, const int32_t *grouped, int64_t groups,
                                const int32_t *column, int64_t distinct, uint64_t *words, int64_t *both) {
    uint32_t *sequence = (uint32_t *)(words + tree_words(n)), *by_column = sequence + n, *next = by_column + n;
    *both = 0;
    if (distinct < n) starts(n, column, distinct, next);
    if (groups == n) {
        if (distinct == n) return inversions((const uint32_t *)column, order, n, words);
        for (int64_t i = 0; i < n; i++) sequence[i] = next[column[order[i]]]++;
        return inversions(sequence, 0, n, words);
    }
    if (distinct == n)
        for (int64_t i = 0; i < n; i++) by_column[column[order[i]]] = (uint32_t)grouped[i];
    else {
        for (int64_t i = 0; i < n; i++) by_column[next[column[order[i]]]++] = (uint32_t)grouped[i];
        int64_t first = 0;
        for (int64_t rank = 0; rank < distinct; first = next[rank++])
            for (int64_t i = first + 1, alike = 0; i < next[rank]; i++) {
                alike = by_column[i] == by_column[i - 1] ? alike + 1 : 0;
                *both += alike;
            }
    }
    for (int64_t i = 0; i < n; i++) /* the same of the reference */
        if (i == 0 || grouped[i] != grouped[i - 1]) next[grouped[i]] = (uint32_t)i;
    for (int64_t i = 0; i < n; i++) sequence[next[by_column[i]]++] = (uint32_t)i;
    return inversions(sequence, 0, n, words);
}

/* Returns concordant minus discordant pairs, by a table of how many records have each pair of dense ranks. The
 * scratch is groups distinct + distinct. */
EXPORT int64_t dpkit_by_table(int64_t n, const int32_t *reference, int64_t groups, const int32_t *column,
                              int64_t distinct, uint32_t *scratch) {
    uint32_t *table = scratch + distinct, *below = scratch; /* below: records of earlier rows, by column */
    memset(scratch, 0, sizeof *scratch * (size_t)(distinct * (groups + 1)));
    for (int64_t i = 0; i < n; i++) table[reference[i] * distinct + column[i]]++;
    int64_t result = 0, before = 0;
    for (int64_t row = 0; row < groups; row++, table += distinct) {
        int64_t smaller = 0, here = 0;
        for (int64_t rank = 0; rank < distinct; rank++) {
            /* smaller, less what of the earlier rows is larger */
            result += table[rank] * (2 * smaller + below[rank] - before);
            smaller += below[rank];
            here += table[rank];
            below[rank] += table[rank];
        }
        before += here;
    }
    return result;
}

/* Writes the columns of records in an order, each `stride` apart: `to` has a row for each of them. */
EXPORT void dpkit_ordered(int64_t n, const int64_t *order, int64_t columns, int64_t row, int64_t column,
                          const double *values, int64_t stride, double *to) {
    enum { SIZE = 8 }; /* so that each line of the cache is written once */
    for (int64_t first = 0; first < n; first += SIZE) {
        int64_t size = n - first < SIZE ? n - first : SIZE;
        for (int64_t j = 0; j < columns; j++)
            for (int64_t i = first; i < first + size; i++) to[j * stride + i] = values[order[i] * row + j * column];
    }
}

/* Near pairs: which of the next `near` records of a column are below each record, and which are equal to it, a bit for
 * each pair; of each distance in `words` words of its own. `values` has `near` NaN behind it. Words of pairs that are
 * equal are written where there are any, and are 0 before. Returns whether there are any. */
static INLINE uint64_t compared(const double *here, const double *there, int size, uint64_t *equal) {
    uint64_t above = 0;
    *equal = 0;
    for (int i = 0; i < size; i++) {
        above |= (uint64_t)(here[i] > there[i]) << i;
        *equal |= (uint64_t)(here[i] == there[i]) << i;
    }
    return above;
}

static int64_t compare_by(int64_t n, int64_t near, const double *values, int64_t words, uint64_t *descending,
                          uint64_t *equal) {
    int64_t any = 0;
    for (int64_t word = 0; 64 * word < n; word++)
        for (int64_t distance = 1; distance <= near; distance++) {
            const double *here = values + 64 * word;
            int64_t left = n - 64 * word, to = (distance - 1) * words + word;
            uint64_t alike;
            descending[to] = compared(here, here + distance, left < 64 ? (int)left : 64, &alike);
            if (alike) equal[to] = alike;
            any |= alike != 0;
        }
    return any;
}

#ifdef FAST
FAST static int64_t compare_fast(int64_t n, int64_t near, const double *values, int64_t words, uint64_t *descending,
                                 uint64_t *equal) {
    int64_t whole = n / 64, any = 0;
    for (int64_t word = 0; word < whole; word++)
        for (int64_t distance = 1; distance <= near; distance++) {
            const double *here = values + 64 * word, *there = here + distance;
            int64_t to = (distance - 1) * words + word;
            uint64_t above = 0, alike;
            __m256d some = _mm256_setzero_pd();
            for (int i = 0; i < 64; i += 4) {
                __m256d a = _mm256_loadu_pd(here + i), b = _mm256_loadu_pd(there + i);
                above |= (uint64_t)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)) << i;
                some = _mm256_or_pd(some, _mm256_cmp_pd(a, b, _CMP_EQ_OQ));
            }
            descending[to] = above;
            if (!_mm256_movemask_pd(some)) continue;
            alike = 0;
            for (int i = 0; i < 64; i += 4) {
                __m256d a = _mm256_loadu_pd(here + i), b = _mm256_loadu_pd(there + i);
                alike |= (uint64_t)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_EQ_OQ)) << i;
            }
            equal[to] = alike;
            any = 1;
        }
    return any | compare_by(n - 64 * whole, near, values + 64 * whole, words, descending + whole, equal + whole);
}
#endif

EXPORT int64_t dpkit_compare(int64_t n, int64_t near, const double *values, int64_t words, uint64_t *descending,
                             uint64_t *equal) {
#ifdef FAST
    if (ON_A_FAST_PROCESSOR) return compare_fast(n, near, values, words, descending, equal);
#endif
    return compare_by(n, near, values, words, descending, equal);
}

/* Returns how many pairs are tied in either of two columns, plus twice those whose order differs and that are not;
 * a column without ties has none to look at. */
static INLINE int64_t disagreement_by(int64_t words, const uint64_t *one, const uint64_t *other, const uint64_t *tied,
                                      const uint64_t *other_tied, int fast) {
    int64_t found = 0;
    if (!tied && !other_tied)
        for (int64_t i = 0; i < words; i++) found += 2 * bits_set(one[i] ^ other[i], fast);
    else
        for (int64_t i = 0; i < words; i++) {
            uint64_t either = (tied ? tied[i] : 0) | (other_tied ? other_tied[i] : 0);
            found += bits_set(either, fast) + 2 * bits_set((one[i] ^ other[i]) & ~either, fast);
        }
    return found;
}

#ifdef FAST
FAST static int64_t disagreement_fast(int64_t words, const uint64_t *one, const uint64_t *other, const uint64_t *tied,
                                      const uint64_t *other_tied) {
    return disagreement_by(words, one, other, tied, other_tied, 1);
}
#endif

EXPORT int64_t dpkit_disagreement(int64_t words, const uint64_t *one, const uint64_t *other, const uint64_t *tied,
                                  const uint64_t *other_tied) {
#ifdef FAST
    if (ON_A_FAST_PROCESSOR) return disagreement_fast(words, one, other, tied, other_tied);
#endif
    return disagreement_by(words, one, other, tied, other_tied, 0);
}

static INLINE uint64_t mixed(uint64_t z) {
    z += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static INLINE uint64_t hashed(double value, uint64_t place) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return value == 0 ? 0 : mixed(bits ^ place);
}

/* Hashes of records: what `contents` of the core makes of their columns in an order, and of the target. */
EXPORT void dpkit_contents(int64_t n, int64_t columns, int64_t row, int64_t column, const double *values,
                           const double *targets, const int64_t *order, uint64_t *hashes) {
    enum { SIZE = 64 }; /* so that a column that lies in memory one by one is read by cache lines */
    uint64_t last = mixed((uint64_t)columns + 1);
    for (int64_t first = 0; first < n; first += SIZE) {
        int size = n - first < SIZE ? (int)(n - first) : SIZE;
        for (int i = 0; i < size; i++) hashes[first + i] = hashed(targets[first + i], last);
        for (int64_t j = 0; j < columns; j++) {
            const double *from = values + first * row + order[j] * column;
            uint64_t place = mixed((uint64_t)j + 1);
            for (int i = 0; i < size; i++) hashes[first + i] += hashed(from[i * row], place);
        }
    }
}

/* A table to look for values on a grid: octaves are cut into 2^bits buckets, few enough to leave one point in each.
 * `table`, of 2^20 numbers, has how many points are before each, `starts` and `masks`, of 4096, where an octave's
 * begin and how many there are, less one. Returns the bits, or -1 where that is too short. The grid increases. */
EXPORT int64_t dpkit_buckets(int64_t size, const double *grid, int32_t *starts, int32_t *masks, int32_t *table) {
    enum { OCTAVES = 4096, MOST = 1 << 20, FINEST = 12 };
    int bits = 0;
    for (int64_t i = 1; i < size && bits <= FINEST; i++)
        while (bits <= FINEST && ordered(grid[i]) >> (52 - bits) == ordered(grid[i - 1]) >> (52 - bits)) bits++;
    if (bits > FINEST) return -1;
    int32_t length = 0, point = 0;
    for (int32_t octave = 0; octave < OCTAVES; octave++) {
        int empty = point == size || (int64_t)(ordered(grid[point]) >> 52) != octave;
        starts[octave] = length;
        masks[octave] = empty ? 0 : (1 << bits) - 1;
        if (length > MOST - masks[octave] - 1) return -1;
        for (int32_t bucket = 0; bucket <= masks[octave]; bucket++) {
            uint64_t key = (uint64_t)octave << bits | (uint64_t)bucket;
            table[length++] = point;
            if (!empty && point < size && ordered(grid[point]) >> (52 - bits) == key) point++;
        }
    }
    return bits;
}

/* How many values are between the points of a grid, and on them: cell 2 i is below point i, 2 i + 1 is the point,
 * the last is beyond all, where NaN is as well. All cells are 0. */
EXPORT void dpkit_cells(int64_t n, int64_t step, const double *values, int64_t size, const double *grid, int64_t bits,
                        const int32_t *starts, const int32_t *masks, const int32_t *table, int64_t *cells) {
    for (int64_t i = 0; i < n; i++) {
        double value = values[i * step];
        uint64_t key = ordered(value), octave = key >> 52;
        int64_t place = table[starts[octave] + (int32_t)((key >> (52 - bits)) & (uint64_t)masks[octave])];
        double next = place < size ? grid[place] : value;
        place = value == value ? place + (next < value) : size;
        cells[2 * place + (place < size && grid[place] == value)]++;
    }
}

/* Rows between fences, -1 at the lower and 1 at the upper one, those longer than a norm shrunk to it, times a factor:
 * columns of `stride` in `rows`. Each step is rounded as NumPy rounds it. */
static INLINE void scaled_by(int64_t n, int64_t columns, int64_t row, int64_t column, const double *values,
                             const double *centers, const double *widths, double norm, double factor, int64_t stride,
                             double *rows) {
    enum { SIZE = 256 };
    double peaks[SIZE], lengths[SIZE];
    for (int64_t first = 0; first < n; first += SIZE) {
        int size = n - first < SIZE ? (int)(n - first) : SIZE;
        double *to = rows + first;
        for (int i = 0; i < size; i++) peaks[i] = 0x1p-900;
        for (int i = 0; i < size; i++) lengths[i] = 0;
        for (int64_t j = 0; j < columns; j++) {
            const double *from = values + first * row + j * column;
            double center = centers[j], width = widths[j], *here = to + j * stride;
            for (int i = 0; i < size; i++) here[i] = from[i * row];
            for (int i = 0; i < size; i++) {
                double value = (here[i] - center) / width;
                value = value < -1 ? -1 : value;
                value = value > 1 ? 1 : value;
                here[i] = value;
                value = value < 0 ? -value : value;
                peaks[i] = value > peaks[i] ? value : peaks[i];
            }
        }
        for (int64_t j = 0; j < columns; j++) {
            const double *here = to + j * stride;
            for (int i = 0; i < size; i++) {
                double direction = here[i] / peaks[i];
                lengths[i] += direction * direction;
            }
        }
        for (int i = 0; i < size; i++) lengths[i] = sqrt(lengths[i]);
        double shrinks[SIZE];
        for (int i = 0; i < size; i++) shrinks[i] = norm / (lengths[i] > 1 ? lengths[i] : 1);
        for (int64_t j = 0; j < columns; j++) {
            double *here = to + j * stride;
            for (int i = 0; i < size; i++) {
                double shrunk = here[i] / peaks[i] * shrinks[i];
                here[i] = (peaks[i] * lengths[i] > norm ? shrunk : here[i]) * factor;
            }
        }
    }
}

/* Sums of rows times weights, added up column by column. */
static INLINE void along_by(int64_t n, int64_t columns, int64_t row, int64_t column, const double *values,
                            const double *weights, double *sums) {
    enum { SIZE = 1024 };
    for (int64_t first = 0; first < n; first += SIZE) {
        int64_t size = n - first < SIZE ? n - first : SIZE;
        double *to = sums + first;
        for (int64_t i = 0; i < size; i++) to[i] = 0;
        for (int64_t j = 0; j < columns; j++) {
            const double *from = values + first * row + j * column;
            double weight = weights[j];
            if (row == 1)
                for (int64_t i = 0; i < size; i++) to[i] += from[i] * weight;
            else
                for (int64_t i = 0; i < size; i++) to[i] += from[i * row] * weight;
        }
    }
}

/* The sum of each column times a target, values within windows as whole steps: the nearest to what is left of a value
 * without the center, times a scale, and at most `most`. Products and sums are whole numbers below 2^53, so that
 * their order makes no difference. */
static INLINE double in_steps(double value, double center, double scale, double most) {
    double steps = (value - center) * scale;
    steps = steps < -most ? -most : steps;
    steps = steps > most ? most : steps;
    return steps + 0x1.8p52 - 0x1.8p52; /* to even, like rint, which only some processors have */
}

static INLINE void in_windows_by(int64_t n, int64_t columns, int64_t row, int64_t column, const double *values,
                                 const double *centers, const double *scales, double most, const double *target,
                                 double *sums) {
    enum { SIZE = 256 };
    for (int64_t j = 0; j < columns; j++) sums[j] = 0;
    if (row < column) { /* column by column */
        for (int64_t j = 0; j < columns; j++) {
            double center = centers[j], scale = scales[j], parts[SIZE] = {0};
            for (int64_t first = 0; first < n; first += SIZE) {
                int size = n - first < SIZE ? (int)(n - first) : SIZE;
                const double *from = values + first * row + j * column, *by = target + first;
                if (row == 1)
                    for (int i = 0; i < size; i++) parts[i] += in_steps(from[i], center, scale, most) * by[i];
                else
                    for (int i = 0; i < size; i++) parts[i] += in_steps(from[i * row], center, scale, most) * by[i];
            }
            for (int i = 0; i < SIZE; i++) sums[j] += parts[i];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double *from = values + i * row;
        double by = target[i];
        if (column == 1)
            for (int64_t j = 0; j < columns; j++) sums[j] += in_steps(from[j], centers[j], scales[j], most) * by;
        else
            for (int64_t j = 0; j < columns; j++)
                sums[j] += in_steps(from[j * column], centers[j], scales[j], most) * by;
    }
}

/* The gradient of a line: the sum of rows times clipped residuals, by columns whose entries are `stride` apart.
 *
 * All products and sums are whole numbers below 2^53, so that their order makes no difference; a residual is
 * rounded as NumPy rounds it. A block of records stays in the cache between its two uses. */
enum { RECORDS = 256 };

static INLINE void products_by(int size, int64_t columns, int64_t stride, const int16_t *rows, const double *weights,
                               double *sums) {
    int32_t wide[RECORDS];
    for (int i = 0; i < size; i++) sums[i] = 0;
    for (int64_t j = 0; j < columns; j++) {
        const int16_t *column = rows + j * stride;
        double weight = weights[j];
        for (int i = 0; i < size; i++) wide[i] = column[i];
        for (int i = 0; i < size; i++) sums[i] += wide[i] * weight;
    }
}

#ifdef FAST
/* The same by two columns at a time and digits of weights: w = 2^18 a + 2^9 b + c, for |w| <= 2^27, b and c from 0
 * to 511. Rows are at most 2^14 in magnitude, so that sums of 120 products with |a| <= 2^9 fit into 32 bits. */
FAST static void products_fast(int size, int64_t columns, int64_t stride, const int16_t *rows, const double *weights,
                               double *sums) {
    enum { AT_ONCE = 120, DIGITS = 3 };
    int whole = size - size % 16;
    for (int i = 0; i < whole; i++) sums[i] = 0;
    products_by(size - whole, columns, stride, rows + whole, weights, sums + whole);
    for (int64_t first = 0; first < columns; first += AT_ONCE) {
        int count = columns - first < AT_ONCE ? (int)(columns - first) : AT_ONCE;
        uint32_t digits[AT_ONCE / 2][DIGITS]; /* of the one column, and above them of the other */
        for (int j = 0; j < count; j++) {
            int32_t weight = (int32_t)weights[first + j], low = weight & 0x3FFFF;
            int shift = 16 * (j % 2);
            if (!shift) digits[j / 2][0] = digits[j / 2][1] = digits[j / 2][2] = 0;
            digits[j / 2][0] |= ((uint32_t)((weight - low) / 0x40000) & 0xFFFF) << shift;
            digits[j / 2][1] |= (uint32_t)(low >> 9) << shift;
            digits[j / 2][2] |= (uint32_t)(low & 0x1FF) << shift;
        }
        int32_t found[DIGITS][RECORDS];
        for (int i = 0; i < whole; i += 16) {
            const int16_t *one = rows + first * stride + i;
            __m256i total[DIGITS][2];
            for (int k = 0; k < DIGITS; k++) total[k][0] = total[k][1] = _mm256_setzero_si256();
            for (int j = 0; j < count; j += 2, one += 2 * stride) {
                const int16_t *other = j + 1 < count ? one + stride : one; /* whose digits are 0 */
                __m256i a = _mm256_loadu_si256((const __m256i *)one), b = _mm256_loadu_si256((const __m256i *)other);
                __m256i low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
                for (int k = 0; k < DIGITS; k++) {
                    __m256i both = _mm256_set1_epi32((int32_t)digits[j / 2][k]);
                    total[k][0] = _mm256_add_epi32(total[k][0], _mm256_madd_epi16(low, both));
                    total[k][1] = _mm256_add_epi32(total[k][1], _mm256_madd_epi16(high, both));
                }
            }
            for (int k = 0; k < DIGITS; k++) { /* in the order of the records: unpacking took quarters apart */
                __m256i lower = _mm256_permute2x128_si256(total[k][0], total[k][1], 0x20);
                __m256i upper = _mm256_permute2x128_si256(total[k][0], total[k][1], 0x31);
                _mm256_storeu_si256((__m256i *)(found[k] + i), lower);
                _mm256_storeu_si256((__m256i *)(found[k] + i + 8), upper);
            }
        }
        for (int i = 0; i < whole; i++) sums[i] += found[0][i] * 262144.0 + found[1][i] * 512.0 + found[2][i];
    }
}
#endif

static INLINE void gradient_by(int64_t n, int64_t columns, int64_t stride, const int16_t *rows, const double *targets,
                               const double *weights, double unit, double scale, double limit, double *gradient,
                               void (*products)(int, int64_t, int64_t, const int16_t *, const double *, double *)) {
    double sums[RECORDS];
    int16_t upper[RECORDS], lower[RECORDS]; /* of a residual, 2^8 upper + lower: products of 16 bits add up in 32 */
    for (int64_t first = 0; first < n; first += RECORDS) {
        int size = n - first < RECORDS ? (int)(n - first) : RECORDS;
        products(size, columns, stride, rows + first, weights, sums);
        for (int i = 0; i < size; i++) {
            double steps = (targets[first + i] - sums[i] * unit) * scale;
            steps = steps > -limit ? steps : -limit;
            steps = steps < limit ? steps : limit;
            int32_t residual = (int32_t)steps;
            lower[i] = (int16_t)(residual & 255);
            upper[i] = (int16_t)((residual - (residual & 255)) / 256);
        }
        for (int64_t j = 0; j < columns; j++) {
            const int16_t *column = rows + j * stride + first;
            int32_t high = 0, low = 0; /* of 256 products, each at most 2^22 */
            for (int i = 0; i < size; i++) high += column[i] * upper[i];
            for (int i = 0; i < size; i++) low += column[i] * lower[i];
            gradient[j] += high * 256.0 + low;
        }
    }
}

/* Trees: the leaf of each record in one whose levels ask one question each, and what is left after its values. */

static INLINE void leaves_by(int64_t n, int64_t stride, const uint8_t *codes, int64_t depth, const int64_t *features,
                             const int64_t *cuts, uint8_t *leaves) {
    enum { SIZE = 4096 };
    for (int64_t first = 0; first < n; first += SIZE) {
        int size = n - first < SIZE ? (int)(n - first) : SIZE;
        uint8_t *leaf = leaves + first;
        memset(leaf, 0, (size_t)size);
        for (int64_t level = 0; level < depth; level++) {
            const uint8_t *code = codes + features[level] * stride + first;
            uint8_t cut = (uint8_t)cuts[level];
            for (int i = 0; i < size; i++) leaf[i] = (uint8_t)(2 * leaf[i] + (code[i] > cut));
        }
    }
}

static INLINE void ask(uint8_t *restrict to, const uint8_t *restrict code, uint8_t cut, int size) {
    for (int i = 0; i < size; i++) to[i] = code[i] > cut;
}

/* Replaces, where the answer is to go right, the leaf on the left by the one on the right, and sets its bit. */
static INLINE void choose(uint8_t *restrict left, const uint8_t *restrict right, const uint8_t *restrict code,
                          uint8_t cut, uint8_t bit, int size) {
    for (int i = 0; i < size; i++) {
        uint8_t goes = code[i] > cut ? 255 : 0;
        left[i] = (uint8_t)((left[i] & ~goes) | ((right[i] | bit) & goes));
    }
}

/* The same of a complete tree, below each of whose splits i are 2 i + 1 and 2 i + 2: from the lowest level up, all
 * splits for all records, a byte for each, which is faster than to follow each record. */
static INLINE void complete_by(int64_t n, int64_t stride, const uint8_t *codes, int64_t depth, const int64_t *features,
                               const int64_t *cuts, uint8_t *leaves) {
    enum { SIZE = 512, DEEPEST = 8 };
    uint8_t bits[DEEPEST + 1][SIZE]; /* of the nodes on the way down, one for each level */
    for (int64_t first = 0; first < n; first += SIZE) {
        int size = n - first < SIZE ? (int)(n - first) : SIZE;
        int64_t held = 0; /* of the buffers: a split whose right side is known joins it with the left one */
        for (int64_t last = 0; last < INT64_C(1) << (depth - 1); last++) {
            int64_t split = (INT64_C(1) << (depth - 1)) - 1 + last;
            const uint8_t *code = codes + features[split] * stride + first;
            ask(bits[held++], code, (uint8_t)cuts[split], size);
            for (int64_t bit = 1; bit < depth && split % 2 == 0; bit++) {
                split = split / 2 - 1;
                code = codes + features[split] * stride + first;
                held--;
                choose(bits[held - 1], bits[held], code, (uint8_t)cuts[split], (uint8_t)(1 << bit), size);
            }
        }
        memcpy(leaves + first, bits[0], (size_t)size);
    }
}

static INLINE void left_by(int64_t n, const int32_t *scores, const uint8_t *leaves, int64_t count,
                           const int32_t *values, int32_t *left) {
    (void)count;
    for (int64_t i = 0; i < n; i++) left[i] = scores[i] - values[leaves[i]];
}

#ifdef FAST
/* Values of sixteen leaves fit into two registers, which are looked up in by eight records at a time. */
FAST static void left_fast(int64_t n, const int32_t *scores, const uint8_t *leaves, int64_t count,
                           const int32_t *values, int32_t *left) {
    int64_t whole = count > 16 ? 0 : n - n % 8;
    int32_t few[16] = {0};
    if (whole) memcpy(few, values, sizeof *values * (size_t)count);
    __m256i low = _mm256_loadu_si256((const __m256i *)few), high = _mm256_loadu_si256((const __m256i *)(few + 8));
    for (int64_t i = 0; i < whole; i += 8) {
        __m256i leaf = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(leaves + i)));
        __m256i value = _mm256_permutevar8x32_epi32(low, leaf);
        if (count > 8) { /* bit 3 of a leaf, as the sign that chooses */
            __m256 other = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, leaf));
            __m256 above = _mm256_castsi256_ps(_mm256_slli_epi32(leaf, 28));
            value = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(value), other, above));
        }
        __m256i score = _mm256_loadu_si256((const __m256i *)(scores + i));
        _mm256_storeu_si256((__m256i *)(left + i), _mm256_sub_epi32(score, value));
    }
    left_by(n - whole, scores + whole, leaves + whole, count, values, left + whole);
}
#endif

/* Adds up values by group, each clipped to a limit. */
static INLINE void clipped_sums_by(int64_t n, const int32_t *values, int32_t limit, const uint8_t *groups,
                                   int64_t count, int64_t *sums) {
    enum { SIZE = 512, APART = 4 }; /* so that values of the same group do not wait for each other */
    int64_t parts[APART][256];
    int32_t clipped[SIZE];
    for (int part = 0; part < APART; part++)
        for (int64_t group = 0; group < count; group++) parts[part][group] = 0;
    for (int64_t first = 0; first < n; first += SIZE, values += SIZE, groups += SIZE) {
        int size = n - first < SIZE ? (int)(n - first) : SIZE, i = 0;
        for (int j = 0; j < size; j++) {
            int32_t value = values[j] < limit ? values[j] : limit;
            clipped[j] = value > -limit ? value : -limit;
        }
        for (; i + APART <= size; i += APART) {
            parts[0][groups[i]] += clipped[i];
            parts[1][groups[i + 1]] += clipped[i + 1];
            parts[2][groups[i + 2]] += clipped[i + 2];
            parts[3][groups[i + 3]] += clipped[i + 3];
        }
        for (; i < size; i++) parts[0][groups[i]] += clipped[i];
    }
    for (int64_t group = 0; group < count; group++)
        sums[group] = parts[0][group] + parts[1][group] + parts[2][group] + parts[3][group];
}

#ifdef FAST
/* Of few groups, eight sums at a time: whoever is in a group has a mask of ones. */
FAST static void clipped_sums_fast(int64_t n, const int32_t *values, int32_t limit, const uint8_t *groups,
                                   int64_t count, int64_t *sums) {
    enum { SIZE = 1024, LANES = 8, AT_ONCE = 8 };
    int64_t whole = count > 2 * AT_ONCE || limit > 1 << 23 ? 0 : n - n % LANES;
    __m256i most = _mm256_set1_epi32(limit), least = _mm256_set1_epi32(-limit);
    clipped_sums_by(n - whole, values + whole, limit, groups + whole, count, sums);
    for (int64_t first = 0; first < whole; first += SIZE) {
        int64_t last = whole - first < SIZE ? whole : first + SIZE;
        for (int64_t group = 0; group < count; group += AT_ONCE) {
            __m256i total[AT_ONCE], here[AT_ONCE]; /* a lane adds up 128 numbers, each at most 2^23 */
            for (int k = 0; k < AT_ONCE; k++) {
                total[k] = _mm256_setzero_si256();
                here[k] = _mm256_set1_epi32((int32_t)group + k);
            }
            for (int64_t i = first; i < last; i += LANES) {
                __m256i value = _mm256_loadu_si256((const __m256i *)(values + i));
                __m256i of = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(groups + i)));
                value = _mm256_max_epi32(_mm256_min_epi32(value, most), least);
                for (int k = 0; k < AT_ONCE; k++)
                    total[k] = _mm256_add_epi32(total[k], _mm256_and_si256(value, _mm256_cmpeq_epi32(of, here[k])));
            }
            for (int k = 0; k < AT_ONCE && group + k < count; k++) {
                int32_t lanes[LANES];
                _mm256_storeu_si256((__m256i *)lanes, total[k]);
                for (int lane = 0; lane < LANES; lane++) sums[group + k] += lanes[lane];
            }
        }
    }
}
#endif

EXPORT void dpkit_clipped_sums(int64_t n, const int32_t *values, int64_t limit, const uint8_t *groups, int64_t count,
                               int64_t *sums) {
#ifdef FAST
    if (ON_A_FAST_PROCESSOR) {
        clipped_sums_fast(n, values, (int32_t)limit, groups, count, sums);
        return;
    }
#endif
    clipped_sums_by(n, values, (int32_t)limit, groups, count, sums);
}

/* One step of boosting in one pass: what is left after the values of the leaves in the last tree, the leaf of each
 * record in the next one, and the sums there of what is left. A tile of records stays in the cache. */
static INLINE void boosted_by(int64_t n, int64_t stride, const uint8_t *codes, int64_t depth, const int64_t *features,
                              const int64_t *cuts, const int32_t *scores, const uint8_t *leaves, const int32_t *values,
                              int32_t limit, int32_t *left, uint8_t *next, int64_t *sums,
                              void (*less)(int64_t, const int32_t *, const uint8_t *, int64_t, const int32_t *,
                                           int32_t *),
                              void (*added)(int64_t, const int32_t *, int32_t, const uint8_t *, int64_t, int64_t *)) {
    enum { SIZE = 4096 };
    int64_t some[256], count = INT64_C(1) << depth;
    for (int64_t leaf = 0; leaf < count; leaf++) sums[leaf] = 0;
    for (int64_t first = 0; first < n; first += SIZE) {
        int64_t size = n - first < SIZE ? n - first : SIZE;
        less(size, scores + first, leaves + first, count, values, left + first);
        leaves_by(size, stride, codes + first, depth, features, cuts, next + first);
        added(size, left + first, limit, next + first, count, some);
        for (int64_t leaf = 0; leaf < count; leaf++) sums[leaf] += some[leaf];
    }
}

/* Scores after the values of the leaves in one tree. */
static INLINE void moved_by(int64_t n, const double *scores, const uint8_t *leaves, const double *values,
                            double *moved) {
    for (int64_t i = 0; i < n; i++) moved[i] = scores[i] + values[leaves[i]];
}

/* Differences times a factor, clipped to a limit and truncated to whole numbers. */
static INLINE void differences_by(int64_t n, const double *of, const double *from, double factor, double limit,
                                  int32_t *steps) {
    for (int64_t i = 0; i < n; i++) {
        double step = (of[i] - from[i]) * factor;
        step = step > -limit ? step : -limit;
        steps[i] = (int32_t)(step < limit ? step : limit);
    }
}

/* Adds the values of the leaves in one tree after another, in this order, which rounding depends on. */
static INLINE void add_trees_by(int64_t n, int64_t stride, const uint8_t *codes, int64_t trees, int64_t depth,
                                int64_t splits, const int64_t *features, const int64_t *cuts, const double *values,
                                double *total) {
    enum { SIZE = 512 };
    uint8_t leaves[SIZE];
    for (int64_t first = 0; first < n; first += SIZE) {
        int64_t size = n - first < SIZE ? n - first : SIZE;
        for (int64_t t = 0; t < trees; t++) {
            const int64_t *asked = features + t * splits, *above = cuts + t * splits;
            const double *value = values + (t << depth);
            if (splits == depth) leaves_by(size, stride, codes + first, depth, asked, above, leaves);
            else complete_by(size, stride, codes + first, depth, asked, above, leaves);
            for (int64_t i = 0; i < size; i++) total[first + i] += value[leaves[i]];
        }
    }
}

/* Codes of values, one more than how many thresholds are below: of 255 for each column, behind its own infinity. */
static INLINE void code_by(int64_t n, int64_t columns, int64_t row, int64_t column, const double *values,
                           const double *thresholds, int64_t stride, uint8_t *codes) {
    enum { SIZE = 512, AT_ONCE = 8 }; /* searches that do not wait for each other */
    double some[SIZE];
    for (int64_t first = 0; first < n; first += SIZE) {
        int size = n - first < SIZE ? (int)(n - first) : SIZE;
        for (int64_t j = 0; j < columns; j++) {
            const double *from = values + first * row + j * column, *table = thresholds + 255 * j;
            uint8_t *to = codes + j * stride + first;
            for (int i = 0; i < size; i++) some[i] = from[i * row];
            for (int i = size; i % AT_ONCE; i++) some[i] = 0;
            for (int i = 0; i < size; i += AT_ONCE) {
                int32_t place[AT_ONCE] = {0};
                for (int32_t step = 128; step; step /= 2)
                    for (int l = 0; l < AT_ONCE; l++) {
                        int32_t next = place[l] + step;
                        place[l] = table[next - 1] < some[i + l] ? next : place[l];
                    }
                int last = size - i < AT_ONCE ? size - i : AT_ONCE;
                for (int l = 0; l < last; l++) to[i + l] = some[i + l] == some[i + l] ? (uint8_t)(place[l] + 1) : 0;
            }
        }
    }
}

/* Each of the following by the loops for this processor. */
#ifdef FAST
#define CHOOSE(name, parameters, arguments)                   \
    FAST static void name##_fast parameters { name##_by arguments; } \
    EXPORT void dpkit_##name parameters {                     \
        if (ON_A_FAST_PROCESSOR) name##_fast arguments;       \
        else name##_by arguments;                             \
    }
#else
#define CHOOSE(name, parameters, arguments) \
    EXPORT void dpkit_##name parameters { name##_by arguments; }
#endif

#ifdef FAST
FAST static void gradient_fast(int64_t n, int64_t columns, int64_t stride, const int16_t *rows, const double *targets,
                               const double *weights, double unit, double scale, double limit, double *gradient) {
    gradient_by(n, columns, stride, rows, targets, weights, unit, scale, limit, gradient, products_fast);
}
#endif

EXPORT void dpkit_gradient(int64_t n, int64_t columns, int64_t stride, const int16_t *rows, const double *targets,
                           const double *weights, double unit, double scale, double limit, double *gradient) {
#ifdef FAST
    if (ON_A_FAST_PROCESSOR) {
        gradient_fast(n, columns, stride, rows, targets, weights, unit, scale, limit, gradient);
        return;
    }
#endif
    gradient_by(n, columns, stride, rows, targets, weights, unit, scale, limit, gradient, products_by);
}

#ifdef FAST
FAST static void boosted_fast(int64_t n, int64_t stride, const uint8_t *codes, int64_t depth, const int64_t *features,
                              const int64_t *cuts, const int32_t *scores, const uint8_t *leaves, const int32_t *values,
                              int32_t limit, int32_t *left, uint8_t *next, int64_t *sums) {
    boosted_by(n, stride, codes, depth, features, cuts, scores, leaves, values, limit, left, next, sums, left_fast,
               clipped_sums_fast);
}
#endif

EXPORT void dpkit_boosted(int64_t n, int64_t stride, const uint8_t *codes, int64_t depth, const int64_t *features,
                          const int64_t *cuts, const int32_t *scores, const uint8_t *leaves, const int32_t *values,
                          int64_t limit, int32_t *left, uint8_t *next, int64_t *sums) {
#ifdef FAST
    if (ON_A_FAST_PROCESSOR) {
        boosted_fast(n, stride, codes, depth, features, cuts, scores, leaves, values, (int32_t)limit, left, next, sums);
        return;
    }
#endif
    boosted_by(n, stride, codes, depth, features, cuts, scores, leaves, values, (int32_t)limit, left, next, sums,
               left_by, clipped_sums_by);
}

CHOOSE(leaves,
       (int64_t n, int64_t stride, const uint8_t *codes, int64_t depth, const int64_t *features, const int64_t *cuts,
        uint8_t *leaves),
       (n, stride, codes, depth, features, cuts, leaves))
CHOOSE(complete,
       (int64_t n, int64_t stride, const uint8_t *codes, int64_t depth, const int64_t *features, const int64_t *cuts,
        uint8_t *leaves),
       (n, stride, codes, depth, features, cuts, leaves))
CHOOSE(moved, (int64_t n, const double *scores, const uint8_t *leaves, const double *values, double *moved),
       (n, scores, leaves, values, moved))
CHOOSE(differences,
       (int64_t n, const double *of, const double *from, double factor, double limit, int32_t *steps),
       (n, of, from, factor, limit, steps))
CHOOSE(add_trees,
       (int64_t n, int64_t stride, const uint8_t *codes, int64_t trees, int64_t depth, int64_t splits,
        const int64_t *features, const int64_t *cuts, const double *values, double *total),
       (n, stride, codes, trees, depth, splits, features, cuts, values, total))
CHOOSE(code,
       (int64_t n, int64_t columns, int64_t row, int64_t column, const double *values, const double *thresholds,
        int64_t stride, uint8_t *codes),
       (n, columns, row, column, values, thresholds, stride, codes))
CHOOSE(scaled,
       (int64_t n, int64_t columns, int64_t row, int64_t column, const double *values, const double *centers,
        const double *widths, double norm, double factor, int64_t stride, double *rows),
       (n, columns, row, column, values, centers, widths, norm, factor, stride, rows))
CHOOSE(along,
       (int64_t n, int64_t columns, int64_t row, int64_t column, const double *values, const double *weights,
        double *sums),
       (n, columns, row, column, values, weights, sums))
CHOOSE(in_windows,
       (int64_t n, int64_t columns, int64_t row, int64_t column, const double *values, const double *centers,
        const double *scales, double most, const double *target, double *sums),
       (n, columns, row, column, values, centers, scales, most, target, sums))
