/** Who acts, as what, and under which trace: the second argument of every service. */

export type Actor<Kind extends string = string> = {
  /** `user:0197…`, `worker`, `system`: as it stands in the event. */
  readonly id: string
  /** One of the closed list of the row's machine. */
  readonly kind: Kind
  readonly traceId: string
}
