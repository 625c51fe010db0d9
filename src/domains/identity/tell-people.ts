/** Messages to people about people: in their inbox, in the transaction of the change. */
import type { Actor } from '#kernel/actor'
import { statement, type Tx } from '#store'
import type { IdentityDeps } from './deps.ts'

type Message = {
  readonly orgId: string
  readonly userIds: readonly string[]
  /** Also every administrator except the person who acts. */
  readonly toAdmins?: boolean
  readonly subject: string
  readonly text: string
}

/** $1 org, $2 users, $3 the administrator who acts, if every other one is notified too, or null. */
const listRecipients = statement<{ readonly id: string }>(
  'identity.list_recipients',
  `select u.id from identity.users u
    where u.org_id = $1::uuid and u.deactivated_at is null
      and (u.id = any ($2::uuid[]) or (u.role = 'admin' and u.id <> $3::uuid))
    order by u.id`,
)

export async function tellPeople(
  tx: Tx,
  { newId, now }: Pick<IdentityDeps, 'newId' | 'now'>,
  { principal }: Actor,
  { orgId, userIds, toAdmins = false, subject, text }: Message,
): Promise<void> {
  const found = await tx.run(listRecipients, [orgId, userIds, toAdmins ? (principal?.userId ?? null) : null])
  await tx.query(
    `insert into identity.messages (id, org_id, user_id, subject, text, created_at)
     select m.id, $3, m.user_id, $4, $5, $6 from unnest($1::uuid[], $2::uuid[]) as m(id, user_id)`,
    [found.map(() => newId()), found.map(({ id }) => id), orgId, subject, text, now()],
  )
}
