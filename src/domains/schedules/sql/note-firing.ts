/** Notes the newest firing for people to look at; an older one that comes late changes nothing. */
import { statement } from '#store'

/** $1 schedule, $2 due at, $3 command or null, $4 refusal or null. */
export const noteFiring = statement(
  'schedules.note_firing',
  `update schedules.command_schedules t
      set last_due_at = $2::timestamptz, last_command_id = $3::uuid, last_refusal = $4::text
    where t.schedule_id = $1::uuid and (t.last_due_at is null or t.last_due_at <= $2::timestamptz)`,
)
