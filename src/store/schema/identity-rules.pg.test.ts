/** Every rule of the identity tables, broken once. */
import { breakEveryRule } from '#test/broken-rows'

const forever = { created_at: 'infinity' }
const empty = ''
const same = '00000000-0000-7000-8000-000000000001'

breakEveryRule(
  [
    'identity.orgs',
    'identity.users',
    'identity.org_roles',
    'identity.org_role_memberships',
    'identity.workspaces',
    'identity.api_keys',
    'identity.delegations',
    'identity.messages',
  ],
  [
    {
      constraint: 'delegations_from_fk',
      table: 'identity.delegations',
      by: ({ elsewhere }) => ({ from_user_id: elsewhere.user }),
    },
    {
      constraint: 'delegations_to_fk',
      table: 'identity.delegations',
      by: ({ elsewhere }) => ({ to_user_id: elsewhere.user }),
    },
    {
      constraint: 'delegations_self_ck',
      table: 'identity.delegations',
      by: ({ here }) => ({ to_user_id: here.user, made_by: [here.other] }),
    },
    {
      constraint: 'delegations_made_by_ck',
      table: 'identity.delegations',
      by: ({ here }) => [{ made_by: [] }, { made_by: [here.other] }],
    },
    {
      constraint: 'delegations_times_ck',
      table: 'identity.delegations',
      by: [{ created_at: '-infinity' }, { until: 'infinity' }, { until: '2020-01-01' }, { ended_at: 'infinity' }],
    },
    {
      constraint: 'messages_user_fk',
      table: 'identity.messages',
      by: ({ elsewhere }) => ({ user_id: elsewhere.user }),
    },
    { constraint: 'messages_times_ck', table: 'identity.messages', by: [forever, { read_at: 'infinity' }] },
    {
      constraint: 'orgs_slug_uq',
      table: 'identity.orgs',
      rows: '[FLOW-001]',
      given: { slug: 'acme' },
      by: { slug: 'acme' },
    },
    { constraint: 'orgs_name_ck', table: 'identity.orgs', by: [{ name: empty }, { slug: empty }] },
    { constraint: 'orgs_settings_ck', table: 'identity.orgs', by: { settings: '[]' } },
    { constraint: 'orgs_times_ck', table: 'identity.orgs', by: forever },
    {
      constraint: 'users_external_id_uq',
      table: 'identity.users',
      rows: '[FLOW-002] [FLOW-004]',
      given: { external_id: 'idp|1' },
      by: ({ elsewhere }) => ({ external_id: 'idp|1', org_id: elsewhere.org }),
    },
    { constraint: 'users_org_fk', table: 'identity.users', rows: '[FLOW-002]', by: { org_id: same } },
    { constraint: 'users_external_id_ck', table: 'identity.users', by: { external_id: empty } },
    {
      constraint: 'users_role_ck',
      table: 'identity.users',
      rows: '[FLOW-003]',
      by: [{ role: 'owner' }, { role: 'Admin' }, { role: empty }],
    },
    { constraint: 'users_times_ck', table: 'identity.users', by: forever },
    { constraint: 'users_deactivated_at_ck', table: 'identity.users', by: { deactivated_at: 'infinity' } },
    {
      constraint: 'org_roles_slug_uq',
      table: 'identity.org_roles',
      rows: '[FLOW-005]',
      given: { slug: 'finance' },
      by: { slug: 'finance' },
    },
    { constraint: 'org_roles_org_fk', table: 'identity.org_roles', rows: '[FLOW-005]', by: { org_id: same } },
    { constraint: 'org_roles_name_ck', table: 'identity.org_roles', by: [{ name: empty }, { slug: empty }] },
    { constraint: 'org_roles_times_ck', table: 'identity.org_roles', by: forever },
    { constraint: 'org_role_memberships_pk', table: 'identity.org_role_memberships', rows: '[FLOW-006]', by: {} },
    {
      constraint: 'org_role_memberships_role_fk',
      table: 'identity.org_role_memberships',
      rows: '[FLOW-007]',
      by: ({ elsewhere }) => ({ role_id: elsewhere.role }),
    },
    {
      constraint: 'org_role_memberships_user_fk',
      table: 'identity.org_role_memberships',
      rows: '[FLOW-007]',
      by: ({ elsewhere }) => ({ user_id: elsewhere.user }),
    },
    { constraint: 'org_role_memberships_times_ck', table: 'identity.org_role_memberships', by: forever },
    { constraint: 'workspaces_slug_uq', table: 'identity.workspaces', given: { slug: 'books' }, by: { slug: 'books' } },
    { constraint: 'workspaces_org_fk', table: 'identity.workspaces', by: { org_id: same } },
    {
      constraint: 'workspaces_owner_fk',
      table: 'identity.workspaces',
      by: ({ elsewhere }) => ({ owner_user_id: elsewhere.user }),
    },
    {
      constraint: 'workspaces_access_role_fk',
      table: 'identity.workspaces',
      by: ({ elsewhere }) => ({ access_role_id: elsewhere.role }),
    },
    { constraint: 'workspaces_name_ck', table: 'identity.workspaces', by: [{ name: empty }, { slug: empty }] },
    { constraint: 'workspaces_times_ck', table: 'identity.workspaces', by: [forever, { archived_at: '-infinity' }] },
    { constraint: 'api_keys_prefix_uq', table: 'identity.api_keys', given: { prefix: 'ck_1' }, by: { prefix: 'ck_1' } },
    {
      constraint: 'api_keys_key_hash_uq',
      table: 'identity.api_keys',
      given: { key_hash: Buffer.alloc(32, 7) },
      by: { key_hash: Buffer.alloc(32, 7) },
    },
    {
      constraint: 'api_keys_user_fk',
      table: 'identity.api_keys',
      by: ({ elsewhere }) => ({ user_id: elsewhere.user }),
    },
    {
      constraint: 'api_keys_workspace_fk',
      table: 'identity.api_keys',
      by: ({ elsewhere }) => ({ workspace_id: elsewhere.workspace }),
    },
    { constraint: 'api_keys_name_ck', table: 'identity.api_keys', by: [{ name: empty }, { prefix: empty }] },
    {
      constraint: 'api_keys_key_hash_ck',
      table: 'identity.api_keys',
      by: { key_hash: Buffer.from('the key in clear') },
    },
    {
      constraint: 'api_keys_invitation_ck',
      table: 'identity.api_keys',
      by: ({ here }) => [
        { is_invitation: true },
        { is_invitation: true, expires_at: '2027-01-01T00:00:00Z', workspace_id: here.workspace },
      ],
    },
    {
      constraint: 'api_keys_agent_ck',
      table: 'identity.api_keys',
      by: [
        { agent: 'a' },
        { tools: ['Work'] },
        { agent: empty, tools: ['Work'], role: 'writer' },
        { agent: 'a', tools: [], role: 'writer' },
        { agent: 'a', tools: ['Work'], role: 'admin' },
      ],
    },
    {
      constraint: 'api_keys_issuers_ck',
      table: 'identity.api_keys',
      by: [{ is_held: true }, { issuers: [same] }],
    },
    { constraint: 'api_keys_role_ck', table: 'identity.api_keys', by: { role: 'root' } },
    {
      constraint: 'api_keys_times_ck',
      table: 'identity.api_keys',
      by: [forever, { expires_at: 'infinity' }, { revoked_at: 'infinity' }, { last_used_at: '-infinity' }],
    },
  ],
)
