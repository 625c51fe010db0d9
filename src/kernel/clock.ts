/** Time, randomness and ids are arguments: the kernel never reads a clock, draws a random number or creates an id. */
export type Clock = () => Date
/** A number in [0, 1). */
export type Random = () => number
export type NewId = () => string
