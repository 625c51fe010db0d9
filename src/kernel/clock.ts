/** Time, chance and ids are arguments: the kernel never reads a clock, rolls dice or makes up an id on its own. */
export type Clock = () => Date
/** A number in [0, 1). */
export type Random = () => number
export type NewId = () => string
