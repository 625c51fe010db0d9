/** Notes that a key is in use, at most once a minute however many processes see it. */
import { statement } from '#store'

/** $1 key, $2 now. The condition decides, so two processes in the same minute write once. */
export const touchKey = statement<never>(
  'identity.touch_key',
  `update identity.api_keys
      set last_used_at = $2
    where id = $1 and (last_used_at is null or last_used_at <= $2::timestamptz - interval '1 minute')`,
)
