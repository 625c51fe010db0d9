/** The dependencies of the services of this room. */
import type { Clock, NewId } from '#kernel/clock'
import type { RandomBytes } from '#kernel/ids'
import type { Db } from '#store'

export type IdentityDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly randomBytes: RandomBytes
  /**
   * Which administrators agree to an invitation, as for approvals: `all`, those who issued no credentials of the maker and got none from them
   * (`by_others`), or those who have no issuer in common with the maker either (`none`, the default here).
   */
  readonly invited?: 'all' | 'by_others' | 'none'
}
