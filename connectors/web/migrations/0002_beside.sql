-- What the agent posts beside its answer, a file: it ends no turn.
alter table web_message drop constraint web_message_kind_check;
alter table web_message add constraint web_message_kind_check
    check (kind in ('person', 'answer', 'failure', 'stopped', 'beside'));
