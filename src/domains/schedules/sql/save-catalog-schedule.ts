/** Brings the row of a catalog schedule up to date, or makes it. The unique name decides; a person's schedule of that name is left alone. */
import { statement } from '#store'
import type { StoredSchedule } from '../stored-schedule.ts'

const spec = 'command_type, payload, cron, time_zone, queue, overlap, misfire, jitter_ms'

/**
 * $1 id if it is new, $2 workspace, $3 name, $4 command type, $5 payload, $6 cron, $7 zone, $8 queue, $9 overlap, $10 misfire, $11 jitter.
 * No row: it is as it should be, or the name belongs to a person's. Whether it is switched on stays as it was.
 */
export const saveCatalogSchedule = statement<StoredSchedule & { readonly is_new: boolean }>(
  'schedules.save_catalog',
  `insert into schedules.command_schedules as t (schedule_id, workspace_id, name, origin, ${spec}, created_by, created_role)
   values ($1::uuid, $2::uuid, $3, 'catalog', $4, $5::jsonb, $6, $7, $8, $9, $10, $11::integer, 'system', 'system')
       on conflict (workspace_id, name) where removed_at is null do update
      set command_type = excluded.command_type, payload = excluded.payload, cron = excluded.cron, time_zone = excluded.time_zone,
          queue = excluded.queue, overlap = excluded.overlap, misfire = excluded.misfire, jitter_ms = excluded.jitter_ms,
          updated_at = statement_timestamp()
    where t.origin = 'catalog'
      and (t.command_type, t.payload, t.cron, t.time_zone, t.queue, t.overlap, t.misfire, t.jitter_ms)
          is distinct from (excluded.command_type, excluded.payload, excluded.cron, excluded.time_zone, excluded.queue,
                            excluded.overlap, excluded.misfire, excluded.jitter_ms)
   returning t.*, (t.xmax = 0) as is_new`,
)
