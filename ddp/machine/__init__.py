"""Numbers, memory, records of memory and small dense algebra, for kernels: the room that writes LLVM's instructions.

Three modules do, ``number``, ``memory`` and ``simd``; all else here and everywhere is Python over their operations.

| operation | meaning | numbers |
|---|---|---|
| ``+ - * /``, negation, ``sine_cosine``, ``square_root``, ``smaller``, ``where_less``, ``all_less`` | arithmetic and \
choices, lane by lane (number.py) | floats, complex numbers, quads, lanes |
| ``spread``, ``lane_of``, ``with_lane``, ``width`` | one lane and all of them (number.py) | all |
| ``rows_of``, ``memory_of``, ``rows_at``, ``floats_at``, ``x[i]``, ``x[i, k]``, ``x[i:]``, ``M[i, j]`` | rows of \
memory by one word (memory.py) | all, and integers |
| ``address_of``, ``numbers_between``, ``as_matrix``, ``as_vector`` | the same memory in another way (memory.py) | all |
| ``load``, ``load_some``, ``store``, ``store_some`` | eight floats of a vector, or the first of them, as lanes \
(simd.py) | lanes |
| ``multiply_add``, ``transpose``, ``stack``, ``prefetch`` | one rounding; 8 x 8 floats turned; a kernel's own floats; \
a line asked for ahead (simd.py) | floats and lanes, floats |
| ``load_tile``, ``store_tile``, ``add_outer`` | sums of products, some rows of some registers at a time (simd.py) | \
lanes |

Of these are made: structs and working memory by declaration (struct.py, fields.py); copies, products and elimination
of padded matrices by their addresses (rows.py, tiles.py, triangles.py); factors of dense arrays
(algebra.py); kernels of matrices of floats for matrices of lanes (elements.py); samples between arrays and lanes
(packing.py, gathering.py); memory that begins where a register does (aligned.py); arrays at addresses and words on the
stack, for C functions (addresses.py).
"""
