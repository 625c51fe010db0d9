/** The dependencies of the services of this room. */
import type { Clock, NewId } from '#kernel/clock'
import type { RandomBytes } from '#kernel/ids'
import type { Db } from '#store'

export type IdentityDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly randomBytes: RandomBytes
  /** Whether people whom one administrator invited count as independent of that administrator; a setting of the installation. */
  readonly countsInvited?: boolean
}
